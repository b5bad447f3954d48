#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::tensor_parallel {
namespace {

const std::vector<train::Choice<TensorOverlap>> kOverlaps = {{"none", TensorOverlap::kNone},
                                                             {"backward", TensorOverlap::kBackward},
                                                             {"ring", TensorOverlap::kRing}};

const std::vector<train::Choice<SequenceParallel>> kSequenceParallel = {
    {"off", SequenceParallel::kOff}, {"on", SequenceParallel::kOn}};

const std::vector<train::Choice<Shapes>> kShapes = {{"none", Shapes::kNone},
                                                    {"table", Shapes::kTable},
                                                    {"compare", Shapes::kCompare},
                                                    {"json", Shapes::kJson}};

/// No machine splits matrices over more.
constexpr std::size_t kMostRanks = 4096;

}  // namespace

std::string_view to_string(TensorOverlap overlap) {
  return std::ranges::find(kOverlaps, overlap, &train::Choice<TensorOverlap>::second)->first;
}

void TensorParallelOptions::add_to(CLI::App& app) {
  const char* group = "Tensor parallel";
  train::Flags(app, group).add("--tp", tp, "ranks that share each matrix", {1, kMostRanks});
  train::add_choice(app, "--sp", sequence_parallel, kSequenceParallel, group,
                    "whether they share each sequence too, between the matrices: on or off");
  train::add_choice(app, "--tp-overlap", overlap, kOverlaps, group,
                    "what hides their communication: none, backward (the weights' gradients) or "
                    "ring (every product, chunk by chunk; with --sp on)");
  train::add_choice(
      app, "--shapes", shapes, kShapes, group,
      "print what a rank has of each tensor along a block, instead of training: table, "
      "compare (with one device and without --sp) or json");
  train::Flags(app, "").add_parsed(
      "--scale-tp",
      [](const std::string&) {
        throw ConfigError(
            "a step on another machine is recorded with --on, and lists of ranks stand behind "
            "--tp: --model llama-8b --tp 2,4,8 --sp on --on dgx-h100.");
      },
      "");
  train::when_given(app, "--tp-overlap", [this] { overlap_given_ = true; });
}

void TensorParallelOptions::validate() const {
  if (!splits()) {
    if (sequence_parallel == SequenceParallel::kOn) {
      throw ConfigError("--sp on has no meaning without --tp: one rank has all of each sequence.");
    }
    if (overlap_given_) {
      throw ConfigError("--tp-overlap has no meaning without --tp: nothing is sent.");
    }
    return;
  }
  if (overlap == TensorOverlap::kRing && sequence_parallel == SequenceParallel::kOff) {
    throw ConfigError(
        "--tp-overlap ring needs --sp on: its chunks are the ranks' parts of each sequence.");
  }
}

TensorParallelLayout TensorParallelOptions::layout() const {
  return {.tp = checked_cast<int>(tp), .sequence_parallel = sequence_parallel};
}

train::ExtraConfig TensorParallelOptions::config() const {
  const bool on = sequence_parallel == SequenceParallel::kOn;
  return {{"tp", tp},
          {"sp", std::string(on ? "on" : "off")},
          {"tp_overlap", std::string(to_string(overlap))}};
}

}  // namespace ultra::tensor_parallel
