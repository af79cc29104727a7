#include "engine/api/inspection/dump.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "engine/files/open_file.h"
#include "engine/passes/pass.h"

namespace lockstep::api {

namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  try {
    files::replace_text(file, text + '\n');
  } catch (const files::FileError& error) {
    throw std::filesystem::filesystem_error("cannot write: " + error.why(), file,
                                            std::make_error_code(std::errc::io_error));
  }
}

}  // namespace

void dump_stages(const std::filesystem::path& folder, const ir::Function& function,
                 const executable::Executable& executable) {
  const std::filesystem::path own = folder / fmt::format("{:016x}", function.hash());
  std::filesystem::create_directories(folder);
  if (!std::filesystem::create_directory(own)) return;
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
