#pragma once

#include <filesystem>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace lockstep::cli {

/// The arguments with those of a TOML file put in, where `--config FILE` stands among them: `batch = 64` is `--batch 64`,
/// `width = 128` in the table `[model]` is `--set model.width=128`, and `name = "cnn"` there is `--model cnn` (as
/// `model = "cnn"` is where there is no such table); what the arguments say themselves goes before the file, and where they
/// name another model, optimizer, schedule or data set, the file's options are not for that one. Throws
/// ValueError naming file and line, as read_config.
std::vector<std::string> with_config(const std::vector<std::string>& arguments);
/// Those of the file alone, whose text is read from `config`; `path` is what errors call it.
std::vector<std::string> config_arguments(std::istream& config, const std::string& path,
                                          const std::vector<std::string>& arguments);

/// A file that `--config` reads back to the same run. `flags`: by long name without the dashes; those with empty texts are
/// left out.
std::string config_text(const std::map<std::string, std::string>& flags,
                        const std::map<std::string, std::string>& settings);

/// "model.width=128" of each `--set`. Throws ValueError for a text without a point or an equals sign, for a thing that has
/// no options and for a name that is given twice.
std::map<std::string, std::string> parse_settings(const std::vector<std::string>& texts);

}  // namespace lockstep::cli
