#pragma once

// The component vision: image files, augmentation, image operations, bounding boxes, image classifiers.

#include <lockstep/vision/augmentation.h>
#include <lockstep/vision/augmentation_boxes.h>
#include <lockstep/vision/augmentation_colors.h>
#include <lockstep/vision/augmentation_geometry.h>
#include <lockstep/vision/augmentation_policies.h>
#include <lockstep/vision/bounding_boxes.h>
#include <lockstep/vision/image.h>
#include <lockstep/vision/image_files.h>
#include <lockstep/vision/image_filters.h>
#include <lockstep/vision/models.h>
