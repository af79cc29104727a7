#pragma once

/// Marks what the shared library exports, to users and, from internal headers, to components; everything else has hidden
/// visibility.
#define LOCKSTEP_API __attribute__((visibility("default")))
