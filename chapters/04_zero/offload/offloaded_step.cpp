#include "chapters/04_zero/offload/offloaded_step.hpp"

#include <utility>

namespace ultra::zero {

OffloadedStep::OffloadedStep(std::size_t blocks, BlockActions actions)
    : blocks_(blocks), actions_(std::move(actions)) {}

}  // namespace ultra::zero
