#include "chapters/04_zero/checkpoints/trained_mixture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/files/file_damage.hpp"

namespace ultra::zero {
namespace {

using Flags = std::map<std::string, std::string>;

/// The value of a flag; another one where a program without that flag has written the file.
std::string value_of(const Flags& flags, const std::string& flag, const char* otherwise) {
  const auto found = flags.find(flag);
  return found == flags.end() ? otherwise : found->second;
}

std::size_t count_of(const Flags& flags, const std::string& flag) {
  const std::string text = value_of(flags, flag, "");
  if (const auto count = parse_number<std::uint64_t>(text)) return *count;
  checkpoint::report_damaged_checkpoint(
      kRecordFile, fmt::format("its {} is {}, no whole number", flag, in_quotes(text)));
}

/// What hangs on flags, in the words of a message; each part ends nothing.
std::string unlike_published(const Flags& flags) {
  std::vector<std::string> reasons;
  if (value_of(flags, "--router", "softmax") != "softmax") {
    reasons.emplace_back(
        "its affinities are sigmoids (--router sigmoid), and those of published ones a softmax");
  }
  if (count_of(flags, "--top-k") == 1) {
    reasons.emplace_back(
        "the one expert of a token counts by its affinity (--top-k 1), and in published ones as a "
        "whole");
  }
  if (value_of(flags, "--shared-experts", "0") != "0") {
    reasons.emplace_back("it has experts that every token uses (--shared-experts)");
  }
  if (value_of(flags, "--balance", "none") == "bias") {
    reasons.emplace_back("biases move the choice (--balance bias)");
  }
  if (value_of(flags, "--capacity-factor", "dropless") != "dropless") {
    reasons.emplace_back("choices are dropped (--capacity-factor)");
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

}  // namespace

std::optional<checkpoint::MixtureConfig> mixture_of(const Flags& flags) {
  if (!flags.contains("--experts")) return {};
  return checkpoint::MixtureConfig{.experts = count_of(flags, "--experts"),
                                   .top_k = count_of(flags, "--top-k"),
                                   .expert_ffn = count_of(flags, "--expert-ffn"),
                                   .unlike_published = unlike_published(flags)};
}

}  // namespace ultra::zero
