// The executable 10_mixed_precision under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::mixed_precision {
namespace {

class PrecisionUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  PrecisionUnderMpirun() : UnderMpirun("10_mixed_precision", "3") {}
};

TEST_F(PrecisionUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const char* flags :
       {"--precision bf16 --grad-dtype bf16 --zero 1", "--precision bf16-pure --zero 3",
        "--precision fp16 --grad-dtype f16 --loss-scale-start 16777216", "--precision fp8"}) {
    expect_same_as_threads(2, flags, "2");
  }
}

TEST_F(PrecisionUnderMpirun, MeshesOfProcesses) {
  expect_same_as_threads(4, "--precision bf16 --tp 2 --zero 1", "2");
}

}  // namespace
}  // namespace ultra::mixed_precision
