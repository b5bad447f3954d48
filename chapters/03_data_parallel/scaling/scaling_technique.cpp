#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"

#include <optional>
#include <string>

#include "chapters/03_data_parallel/scaling/scaling_options.hpp"

namespace ultra::data_parallel {
namespace {

class ScalingPrediction : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }
  void validate(train::Setup&) override { options_.validate(); }
  std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  ScalingOptions options_;
};

}  // namespace

std::unique_ptr<train::Technique> scaling_prediction() {
  return std::make_unique<ScalingPrediction>();
}

}  // namespace ultra::data_parallel
