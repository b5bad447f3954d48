#include "common/optim/state_store.hpp"

#include <vector>

namespace ultra::optim {
namespace {

class StatesOnDevice final : public StateStore {
 public:
  void allocate(std::span<const Tensor> values, std::span<const StateSpecs> specs) override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<Tensor>& states = tensors_.emplace_back();
      for (std::size_t s = 0; s < specs[i].size(); ++s) {
        states.push_back(Tensor::zeros(values[i].device(), values[i].shape(),
                                       accumulation_dtype(values[i].dtype()),
                                       MemoryCategory::kOptimizer));
      }
    }
  }

  std::size_t size() const override { return tensors_.size(); }
  std::span<const Tensor> borrow(std::size_t i) override { return tensors_.at(i); }
  void give_back([[maybe_unused]] std::size_t i) override {}
  bool lends_all() const override { return true; }

  void read(std::size_t i, std::span<const Tensor> out) override { copy(out, tensors_.at(i)); }
  void write(std::size_t i, std::span<const Tensor> in) override { copy(tensors_.at(i), in); }

 private:
  static void copy(std::span<const Tensor> to, std::span<const Tensor> from) {
    for (std::size_t s = 0; s < from.size(); ++s) to[s].copy_from(from[s]);
  }

  std::vector<std::vector<Tensor>> tensors_;
};

}  // namespace

std::unique_ptr<StateStore> states_on_device() { return std::make_unique<StatesOnDevice>(); }

}  // namespace ultra::optim
