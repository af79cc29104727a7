#pragma once

#include <filesystem>
#include <string>

#include <lockstep/export.h>
#include <lockstep/sources.h>
#include <lockstep/text/vocabularies.h>

// Readers of text files. They throw DataError as those of data_files.h do.
namespace lockstep::data {

/// The text of a file, which must be UTF-8.
LOCKSTEP_API std::string read_text(const std::filesystem::path& path);
/// The lines of a text file (they end in LF, CRLF, or all in CR) that are not empty as documents, "tokens" int32[any length]. The file stays mapped into memory.
LOCKSTEP_API SourcePtr text_documents(const std::filesystem::path& path, Vocabulary vocabulary);

}  // namespace lockstep::data
