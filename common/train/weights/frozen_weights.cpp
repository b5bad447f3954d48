#include "common/train/weights/frozen_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::train {

bool is_frozen_by(std::span<const std::string> patterns, std::string_view name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return name.find(pattern) != name.npos; });
}

void expect_to_train(std::span<const std::string> patterns, std::span<const nn::NamedShape> whole) {
  const auto has = [&](std::span<const std::string> some) {
    return [some](const nn::NamedShape& parameter) { return is_frozen_by(some, parameter.name); };
  };
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(whole, has({&pattern, 1}))) continue;
    throw ConfigError(
        fmt::format("--freeze {} is in no parameter's name. The names are those of Hugging Face, "
                    "from {} to {}. "
                    "Give a part of one, such as model.layers.0. or embed_tokens.",
                    in_quotes(pattern), whole.front().name, whole.back().name));
  }
  if (patterns.empty() || !std::ranges::all_of(whole, has(patterns))) return;
  throw ConfigError(fmt::format(
      "--freeze {} freezes all {} parameters, and nothing would be trained. Freeze fewer.",
      fmt::join(patterns, ","), whole.size()));
}

void freeze(nn::Model& model, std::span<const std::string> patterns) {
  for (nn::Parameter* parameter : model.parameters()) {
    if (parameter->data_group() == nn::kLocalGroup) continue;
    if (is_frozen_by(patterns, parameter->name())) parameter->freeze();
  }
}

std::vector<nn::Parameter*> trained(const std::vector<nn::Parameter*>& parameters) {
  std::vector<nn::Parameter*> found;
  std::ranges::remove_copy_if(parameters, std::back_inserter(found), &nn::Parameter::is_frozen);
  return found;
}

std::vector<nn::Parameter*> frozen(const std::vector<nn::Parameter*>& parameters) {
  std::vector<nn::Parameter*> found;
  std::ranges::copy_if(parameters, std::back_inserter(found), &nn::Parameter::is_frozen);
  return found;
}

std::vector<nn::Parameter*> frozen_last(std::vector<nn::Parameter*> parameters) {
  std::ranges::stable_partition(parameters, std::not_fn(&nn::Parameter::is_frozen));
  return parameters;
}

}  // namespace ultra::train
