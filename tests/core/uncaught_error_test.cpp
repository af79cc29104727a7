#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/error.h>

// A program of its own, in a process of its own: its standard output is a pipe, and its error is caught by nobody.

namespace {

[[noreturn]] void throw_error() { throw lockstep::ValueError("nobody catches this"); }

[[noreturn]] void print_and_throw(int output) noexcept {
  std::signal(SIGABRT, SIG_DFL);
  std::set_terminate(std::abort);
  dup2(output, STDOUT_FILENO);
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
  std::printf("one, ");
  std::cout << "two";
  throw_error();
}

}  // namespace

TEST_CASE("an error that nobody catches leaves on a piped standard output what the program has printed") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  std::fflush(nullptr);
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) print_and_throw(ends[1]);
  REQUIRE(child > 0);
  close(ends[1]);
  std::string printed;
  std::array<char, 64> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;) printed.append(part.data(), n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(printed == "one, two");
}
