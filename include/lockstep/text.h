#pragma once

// The component text: text files, vocabularies, hashed features.

#include <lockstep/text/hashed_features.h>
#include <lockstep/text/text_files.h>
#include <lockstep/text/vocabularies.h>
