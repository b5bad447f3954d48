#include "chapters/10_mixed_precision/optimizer_states/stored_states.hpp"

#include <utility>
#include <vector>

namespace ultra::mixed_precision {
namespace {

class StoredStates final : public optim::StateStore {
 public:
  explicit StoredStates(MakeStoredState make) : make_(std::move(make)) {}

  void allocate(std::span<const Tensor> values, std::span<const optim::StateSpecs> specs) override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor& value = values[i];
      OfTensor& tensor = tensors_.emplace_back();
      tensor.shape = value.shape();
      tensor.dtype = accumulation_dtype(value.dtype());
      tensor.device = value.device();
      for (const optim::StateSpec& spec : specs[i]) {
        tensor.states.push_back(make_(value.device(), value.numel(), spec));
      }
    }
  }

  std::size_t size() const override { return tensors_.size(); }

  std::span<const Tensor> borrow(std::size_t i) override {
    const OfTensor& tensor = tensors_.at(i);
    for (std::size_t s = 0; s < tensor.states.size(); ++s) {
      borrowed_.push_back(Tensor::empty(tensor.device, tensor.shape, tensor.dtype));
    }
    read(i, borrowed_);
    return borrowed_;
  }

  void give_back(std::size_t i) override {
    write(i, borrowed_);
    borrowed_.clear();
  }

  void read(std::size_t i, std::span<const Tensor> out) override {
    const auto& states = tensors_.at(i).states;
    for (std::size_t s = 0; s < states.size(); ++s) states[s]->load(out[s]);
  }

  void write(std::size_t i, std::span<const Tensor> in) override {
    const auto& states = tensors_.at(i).states;
    for (std::size_t s = 0; s < states.size(); ++s) states[s]->store(in[s]);
  }

 private:
  /// The states of one tensor.
  struct OfTensor {
    std::vector<std::unique_ptr<StoredState>> states;
    Shape shape;
    DType dtype = DType::kF32;  // in which they are borrowed
    Device device = Device::cpu();
  };

  MakeStoredState make_;
  std::vector<OfTensor> tensors_;
  std::vector<Tensor> borrowed_;
};

}  // namespace

std::unique_ptr<optim::StateStore> stored_states(MakeStoredState make) {
  return std::make_unique<StoredStates>(std::move(make));
}

}  // namespace ultra::mixed_precision
