#pragma once

// The component audio: audio files.

#include <lockstep/audio/audio_files.h>
