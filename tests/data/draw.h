#pragma once

#include <functional>

#include <lockstep/data.h>

// The type of changes of an image that are drawn.
namespace lockstep::tests {

/// A change of an image that is drawn from its row's key.
using Draw = std::function<data::HostTable(const data::HostTable&, const data::RowKey&)>;

}  // namespace lockstep::tests
