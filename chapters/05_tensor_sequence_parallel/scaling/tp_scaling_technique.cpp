#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_technique.hpp"

#include <optional>
#include <string>

#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_options.hpp"

namespace ultra::tensor_parallel {
namespace {

class TpScalingPrediction : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }
  void validate(train::Setup&) override { options_.validate(); }
  std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  TpScalingOptions options_;
};

}  // namespace

std::unique_ptr<train::Technique> tp_scaling_prediction() {
  return std::make_unique<TpScalingPrediction>();
}

}  // namespace ultra::tensor_parallel
