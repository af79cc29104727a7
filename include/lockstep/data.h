#pragma once

// Data, by theme: files, sources of rows, batches. Images, texts and audio files are in components of their own.

#include <lockstep/batches.h>
#include <lockstep/data_files.h>
#include <lockstep/sources.h>
