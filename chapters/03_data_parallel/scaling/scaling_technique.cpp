#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"

#include "chapters/03_data_parallel/scaling/scaling_options.hpp"

namespace ultra::data_parallel {

std::unique_ptr<train::Technique> scaling_prediction() {
  return std::make_unique<Prediction<ScalingOptions>>();
}

}  // namespace ultra::data_parallel
