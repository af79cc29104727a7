// Reads a function with its weights from a file and calls it. It knows nothing of the model that was trained.

#include <cstdio>

#include <lockstep/array.h>
#include <lockstep/error.h>
#include <lockstep/exchange/exported_function.h>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: serve <file that train wrote>\n");
    return 2;
  }
  const lockstep::exchange::ExportedFunction predict = lockstep::exchange::load_function(argv[1]);
  const lockstep::Array points = lockstep::array({{0.9f, 0.8f}, {0.1f, 0.2f}, {0.7f, 0.9f}});
  for (const lockstep::Array row : predict(points)) {
    std::printf("%s\n", row[1].item<float>() > 0.5f ? "above the line" : "below the line");
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
