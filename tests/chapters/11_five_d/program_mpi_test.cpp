// The executable 11_five_d, which has the flags of every chapter, under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::five_d {
namespace {

class FiveDUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  FiveDUnderMpirun()
      : UnderMpirun("11_five_d", ultra::test::Changes{{"--steps", "3"},
                                                      {"--global-batch", "8"},
                                                      {"--micro-batch", "1"},
                                                      {"--layers", "4"}}) {}
};

TEST_F(FiveDUnderMpirun, ReplicasComputeWhatThreadsCompute) {
  for (const char* flags : {"--overlap per-parameter", "--compress int8", "--zero 1", "--zero 2",
                            "--zero 3 --prefetch 2", "--zero 3 --shards rows"}) {
    expect_same_as_threads(3, flags, "3");
  }
  for (const char* flags :
       {"--zero 3 --hybrid-shard 2",
        "--zero 3 --zero++ weights-int8,hierarchical,gradients-int4 --node-size 2",
        "--experts 8 --ep 2 --shared-experts 1 --zero 3",
        "--experts 4 --ep 4 --top-k 1 --capacity-factor 0.7",
        "--experts 8 --ep 4 --router sigmoid --balance bias --bias-rate 10"}) {
    expect_same_as_threads(4, flags, "4");
  }
  for (const char* flags :
       {"--precision bf16 --grad-dtype bf16 --zero 1", "--precision bf16-pure --zero 3",
        "--precision fp16 --grad-dtype f16 --loss-scale-start 16777216", "--precision fp8"}) {
    expect_same_as_threads(2, flags, "2");
  }
}

TEST_F(FiveDUnderMpirun, PartsOfAModelComputeWhatThreadsCompute) {
  for (const char* flags :
       {"--tp 4", "--tp 4 --sp on --tp-overlap ring",
        "--cp 4 --cp-layout contiguous --cp-method all-gather --seq 13",
        "--cp 4 --cp-method ulysses --kv-heads 4",
        "--cp 4 --cp-method ulysses+ring --cp-ulysses 2 --doc-length 5", "--pp 4",
        "--pp 4 --schedule afab", "--pp 4 --schedule zero-bubble-h2"}) {
    expect_same_as_threads(4, flags, "1");
  }
  for (const char* flags :
       {"--pp 2 --schedule interleaved:2", "--pp 2 --schedule zb-v", "--pp 2 --schedule dualpipe-v",
        "--pp 2 --schedule pipedream-async --clip 0"}) {
    expect_same_as_threads(2, flags, "1");
  }
}

TEST_F(FiveDUnderMpirun, MeshesComputeWhatThreadsCompute) {
  for (const char* flags : {"--cp 2 --tp 2 --sp on", "--pp 2 --cp 2 --schedule zb-v"}) {
    expect_same_as_threads(4, flags, "1");
  }
  for (const char* flags : {"--tp 2 --sp on --zero 3 --precision bf16", "--pp 2 --zero 3",
                            "--cp 2 --experts 8 --ep 4", "--tp 2 --experts 4 --ep 2"}) {
    expect_same_as_threads(4, flags, "2");
  }
}

TEST_F(FiveDUnderMpirun, WhatDoesNotFitEndsWithOneError) {
  expect_refused(3, "--zero 3 --hybrid-shard 2", "3 ranks are not whole nodes of 2");
  expect_refused(3, "--zero 3 --zero++ hierarchical --node-size 2",
                 "3 ranks are not whole nodes of 2");
  expect_refused(3, "--zero 2 --device-memory 20kB", "out of device memory");
  expect_refused(3, "--tp 2", "3 ranks are no whole replicas of 2 ranks each");
  expect_refused(3, "--tp 2 --dp 2", "mpirun started 3 processes");
  expect_refused(3, "--tp 3", "4 % 3 = 1");
  expect_refused(2, "--cp 2 --seq 3", "--seq 3 is less than the 4 chunks");
  expect_refused(2, "--pp 2 --layers 1", "--layers 1 are fewer than the 2 parts");
  expect_refused(2, "--experts 3 --ep 2", "--ep must divide --experts");
  expect_refused(3, "--experts 2 --ep 2", "--ep must divide the ranks");
}

}  // namespace
}  // namespace ultra::five_d
