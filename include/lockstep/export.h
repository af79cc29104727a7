#pragma once

/// Marks what the shared library offers; everything else has hidden visibility.
#define LOCKSTEP_API __attribute__((visibility("default")))
