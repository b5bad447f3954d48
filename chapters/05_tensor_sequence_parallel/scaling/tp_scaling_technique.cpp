#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_technique.hpp"

#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_options.hpp"

namespace ultra::tensor_parallel {

std::unique_ptr<train::Technique> tp_scaling_prediction() {
  return std::make_unique<data_parallel::Prediction<TpScalingOptions>>();
}

}  // namespace ultra::tensor_parallel
