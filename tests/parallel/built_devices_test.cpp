#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::expect_error;

TEST_CASE("a mesh of devices that this build cannot run on is refused") {
  expect_error<MeshError>(
      [] {
        Mesh({{"batch", 2}}, {{DeviceKind::cuda, 0}, {DeviceKind::cuda, 1}});
      },
      "mesh: this build has no backend for cuda:0", "cpu:0-3");
  expect_error<MeshError>([] { data_mesh(2, {{DeviceKind::cpu, 0}, {DeviceKind::cuda, 0}}); }, "cuda:0");
  expect_error<MeshError>([] { data_mesh(2, {{DeviceKind::cpu, -1}}); }, "cpu:-1");
}
