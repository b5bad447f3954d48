#pragma once
/// @file
/// A training run of a fraction of a second, for tests of what surrounds the model.

#include <gtest/gtest.h>

#include <string>

#include "build_config.hpp"
#include "common/train/options/options.hpp"

namespace ultra::test {

/// A small text that no edit of a chapter changes.
inline const std::string kText = std::string(build::kSourceDir) + "/tests/data/arithmetic.txt";

/// A model of some thousand weights on that text.
inline train::TrainOptions short_run() {
  train::TrainOptions options;
  options.model = {.hidden_size = 24,
                   .num_layers = 2,
                   .num_heads = 4,
                   .num_kv_heads = 2,
                   .ffn_hidden_size = 40,
                   .max_seq_len = 16};
  options.global_batch = 4;
  options.micro_batch = 2;
  options.steps = 5;
  options.warmup = 2;
  options.data = kText;
  return options;
}

/// Runs `fn` and returns what it printed on stdout, also when it throws.
template <class Fn>
std::string printed_by(Fn&& fn) {
  ::testing::internal::CaptureStdout();
  try {
    fn();
  } catch (...) {
    static_cast<void>(::testing::internal::GetCapturedStdout());
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

}  // namespace ultra::test
