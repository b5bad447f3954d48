#include "tests/chapters/11_five_d/composition/coverage.hpp"

#include <algorithm>

namespace ultra::five_d::test {
namespace {

/// Flags whose every value is a feature of its own; "none", "off" and "0" are none.
constexpr const char* kByValue[] = {"--zero",      "--recompute",  "--offload",    "--schedule",
                                    "--cp-method", "--cp-layout",  "--tp-overlap", "--overlap",
                                    "--balance",   "--all-reduce", "--attention"};
/// Flags that are a feature when their number is above one, or when they are given.
constexpr const char* kCounted[] = {"--dp", "--pp", "--cp", "--tp", "--ep"};
constexpr const char* kGiven[] = {
    "--tied-embeddings", "--doc-length", "--capacity-factor", "--experts",
    "--hybrid-shard",    "--zero++",     "--val-data",        "--check-replicas",
    "--bucket-mb",       "--compress",   "--vocab",           "--mask",
    "--head-dim",        "--qkv-bias",   "--qk-norm",         "--mtp",
    "--head-z-loss",     "--window",     "--head-chunks"};

bool is_none(const std::string& value) {
  return value.empty() || value == "none" || value == "off" || value == "0";
}

/// Where a pair or triple of rising features stands in a table of all.
std::size_t place_of(Feature a, Feature b, Feature c) {
  const std::size_t n = features().size();
  return (a * n + b) * n + c;
}

/// Calls `visit` with the places of pairs, and of triples of techniques.
template <class Visit>
void for_each_subset(const std::vector<Feature>& all, const Visit& visit) {
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      visit(place_of(all[a], all[b], all[b]));
      for (std::size_t c = b + 1; c < all.size() && all[c] < kTechniques; ++c) {
        visit(place_of(all[a], all[b], all[c]));
      }
    }
  }
}

/// "--zero 1" and "--zero 3", or "--zero": no configuration has one without the other, or both.
bool of_one_flag(Feature a, Feature b) {
  const auto flag_of = [](Feature feature) {
    const std::string& name = features()[feature];
    if (name == "--zero++") return std::string("--zero");  // it needs --zero 3
    if (name == "--head-chunks") return std::string("--mtp");
    // No model has two of these.
    if (name == "--qk-norm" || name == "--qkv-bias") return std::string("--attention");
    return name.substr(0, name.find(' '));
  };
  const auto has_latents = [](Feature feature) {
    return features()[feature].starts_with("--attention");
  };
  const auto of_heads = [](Feature feature) {
    return features()[feature] == "--head-dim" || features()[feature] == "--window";
  };
  if ((has_latents(a) && of_heads(b)) || (has_latents(b) && of_heads(a))) return true;
  return flag_of(a) == flag_of(b);
}

}  // namespace

const std::vector<std::string>& features() {
  static const std::vector<std::string> all = {
      "--dp", "--pp", "--cp", "--tp", "--ep", "--sp", "--zero", "--recompute", "--offload",
      "--tied-embeddings", "--doc-length", "--capacity-factor", "--hybrid-shard",
      // Variants.
      "--zero 1", "--zero 2", "--zero 3", "--recompute selective", "--recompute full",
      "--offload optimizer", "--offload optimizer+params", "--schedule naive", "--schedule afab",
      "--schedule 1f1b", "--schedule interleaved", "--schedule zero-bubble-h1",
      "--schedule zero-bubble-h2", "--schedule zb-v", "--schedule dualpipe-v", "--cp-method ring",
      "--cp-method all-gather", "--cp-method ulysses", "--cp-method ulysses+ring",
      "--cp-layout contiguous", "--cp-layout zigzag", "--tp-overlap backward", "--tp-overlap ring",
      "--overlap per-parameter", "--overlap bucketed", "--balance aux", "--balance bias",
      "--experts", "--zero++", "--val-data", "--check-replicas", "--bucket-mb", "--compress",
      "--vocab", "--mask", "--head-dim", "--qkv-bias", "--qk-norm", "--mtp", "--head-z-loss",
      "--window", "--head-chunks", "--attention mla", "--attention mla-absorbed", "--resume",
      "uneven shares"};
  return all;
}

std::vector<Feature> features_of(const Configuration& configuration) {
  std::vector<std::string> names;
  for (const char* flag : kByValue) {
    const std::string value = configuration.value_of(flag);
    if (is_none(value)) continue;
    names.push_back(std::string(flag) + " " + value.substr(0, value.find(':')));
    names.emplace_back(flag);
  }
  for (const char* flag : kCounted) {
    if (configuration.count_of(flag) > 1) names.emplace_back(flag);
  }
  for (const auto* flags : {&configuration.model, &configuration.layout}) {
    for (const auto& [flag, value] : *flags) {
      if (std::ranges::find(kGiven, flag) != std::end(kGiven)) names.push_back(flag);
    }
  }
  if (configuration.value_of("--sp") == "on") names.emplace_back("--sp");
  if (configuration.goes_on != GoesOn::kNowhere) names.emplace_back("--resume");
  if (configuration.count_of("--global-batch") % configuration.count_of("--dp") != 0) {
    names.emplace_back("uneven shares");
  }
  std::vector<Feature> found;
  for (Feature feature = 0; feature < features().size(); ++feature) {
    if (std::ranges::find(names, features()[feature]) != names.end()) found.push_back(feature);
  }
  return found;
}

std::string names_of(const std::vector<Feature>& some) {
  std::string text;
  for (const Feature feature : some) text += (text.empty() ? "" : ", ") + features()[feature];
  return text;
}

Coverage::Coverage() : has_(features().size() * features().size() * features().size()) {}

void Coverage::add(const std::vector<Feature>& some) {
  for_each_subset(some, [&](std::size_t place) { has_[place] = true; });
}

std::size_t Coverage::gain(const std::vector<Feature>& some) const {
  std::size_t gain = 0;
  for_each_subset(some, [&](std::size_t place) {
    if (!has_[place]) ++gain;
  });
  return gain;
}

std::vector<std::vector<Feature>> Coverage::missing() const {
  std::vector<std::vector<Feature>> missing;
  for (Feature a = 0; a < features().size(); ++a) {
    for (Feature b = a + 1; b < features().size(); ++b) {
      if (of_one_flag(a, b)) continue;
      if (!has_[place_of(a, b, b)]) missing.push_back({a, b});
      for (Feature c = b + 1; c < kTechniques; ++c) {
        if (!has_[place_of(a, b, c)]) missing.push_back({a, b, c});
      }
    }
  }
  return missing;
}

}  // namespace ultra::five_d::test
