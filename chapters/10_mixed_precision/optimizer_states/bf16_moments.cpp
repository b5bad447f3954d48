#include "chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp"

#include "chapters/10_mixed_precision/optimizer_states/stored_states.hpp"

namespace ultra::mixed_precision {
namespace {

class Bf16Moment : public StoredState {
 public:
  Bf16Moment(const Device& device, std::size_t elements)
      : stored_(Tensor::zeros(device, {elements}, DType::kBF16, MemoryCategory::kOptimizer)) {}

  void store(const Tensor& values) override { cast_into(stored_, values.view(stored_.shape())); }
  void load(const Tensor& values) const override {
    cast_into(values.view(stored_.shape()), stored_);
  }

 private:
  Tensor stored_;
};

}  // namespace

std::unique_ptr<optim::StateStore> bf16_moments() {
  return stored_states([](const Device& device, std::size_t elements, const optim::StateSpec&) {
    return std::make_unique<Bf16Moment>(device, elements);
  });
}

}  // namespace ultra::mixed_precision
