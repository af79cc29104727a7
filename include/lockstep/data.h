#pragma once

// Data, by theme: files and what is in them, sources of rows and what is done to a row, batches.

#include <lockstep/augmentation.h>
#include <lockstep/augmentation_boxes.h>
#include <lockstep/augmentation_colors.h>
#include <lockstep/augmentation_geometry.h>
#include <lockstep/augmentation_policies.h>
#include <lockstep/batches.h>
#include <lockstep/data_files.h>
#include <lockstep/hashed_features.h>
#include <lockstep/sources.h>
#include <lockstep/vocabularies.h>
