#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/communicator.h>
#include <lockstep/processes.h>
#include <lockstep/version.h>

#include "engine/cli/choices.h"
#include "engine/cli/commands.h"

namespace lockstep::cli {

int info() {
  for (const auto& [key, value] : machine_description()) fmt::print("{:<24} {}\n", key, value);
  fmt::print("{:<24} cpu:0-{}\n", "devices", std::max(1U, std::thread::hardware_concurrency()) - 1);
  std::string communicators;
  for (const std::string& name : backend::built_communicators())
    communicators += (communicators.empty() ? "" : ", ") + name;
  fmt::print("{:<24} {}\n", "communicators", communicators);
  std::string models;
  for (const std::string_view name : model_names()) models += (models.empty() ? "" : ", ") + std::string(name);
  fmt::print("{:<24} {}\n", "models", models);
  return success;
}

}  // namespace lockstep::cli
