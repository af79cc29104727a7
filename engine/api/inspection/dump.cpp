#include "engine/api/inspection/dump.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/files/open_file.h"
#include "engine/passes/pass.h"

namespace lockstep::api {

namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  files::with_error<ValueError>("dump", [&] { files::replace_text(file, text + '\n'); });
}

/// Whether it was not there yet.
bool make_dump_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const bool is_made = std::filesystem::create_directories(folder, error);
  if (!error) return is_made;
  throw ValueError(
      fmt::format("[dump] {} cannot be made: {}; give a folder that can be written", folder.string(), error.message()));
}

}  // namespace

void dump_stages(const std::filesystem::path& folder, const ir::Function& function,
                 const executable::Executable& executable) {
  const std::filesystem::path own = folder / fmt::format("{:016x}", function.hash());
  if (!make_dump_folder(own)) return;
  write(own / "0-traced.txt", function.print(0));
  auto stage = std::make_shared<const ir::Function>(function);
  int number = 0;
  for (const passes::Pass& pass : passes::pipeline()) {
    stage = pass.run(stage);
    write(own / fmt::format("{}-{}.txt", ++number, pass.name), stage->print(0));
  }
  write(own / "plan.txt", executable.plan().text);
}

}  // namespace lockstep::api
