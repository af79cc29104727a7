#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <lockstep/export.h>
#include <lockstep/sources.h>

// Readers of TensorFlow's record files. They throw DataError as those of data_files.h do.
namespace lockstep::data {

/// The records of a TFRecord file that stays mapped into memory: "record" uint8[any length]. Lengths are checked by their
/// CRC-32C here, contents as they are read.
LOCKSTEP_API SourcePtr tfrecord_rows(const std::filesystem::path& path);
/// A tf.train.Example as a row: lists of floats as float32[n], of whole numbers as int64[n]; of byte strings uint8 [length]
/// where there is one, else "<name>/0", "<name>/1" and so on. `record` is what errors call it.
LOCKSTEP_API Row parse_example(std::span<const std::byte> bytes, const std::string& record);

}  // namespace lockstep::data
