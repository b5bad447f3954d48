#pragma once
/// @file
/// --scale: how far data parallelism would scale, instead of training.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/train/program/technique.hpp"

namespace ultra::data_parallel {

/// @brief A prediction as a technique that answers instead of training.
/// Requires: Options has kFlag, add_to, validate, predicts and answer, as ScalingOptions; and files,
/// when it names any.
template <class Options>
class Prediction : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }
  void validate(train::Setup&) override { options_.validate(); }
  [[nodiscard]] std::vector<train::FileFlag> files() const override {
    if constexpr (requires { options_.files(); }) return options_.files();
    return {};
  }
  [[nodiscard]] std::vector<train::Question> questions() const override {
    if (!options_.predicts()) return {};
    return {{Options::kFlag, train::Instead::kAnswer}};
  }
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  Options options_;
};

/// @brief The prediction of scaling.
[[nodiscard]] std::unique_ptr<train::Technique> scaling_prediction();

}  // namespace ultra::data_parallel
