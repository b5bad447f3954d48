#include "common/optim/moment_store.hpp"

namespace ultra::optim {
namespace {

class MomentsOnDevice : public MomentStore {
 public:
  void allocate(std::span<const Tensor> values) override {
    for (const Tensor& value : values) {
      const auto zeros = [&] {
        return Tensor::zeros(value.device(), value.shape(), accumulation_dtype(value.dtype()),
                             MemoryCategory::kOptimizer);
      };
      moments_.push_back({.first = zeros(), .second = zeros()});
    }
  }

  std::size_t size() const override { return moments_.size(); }
  Moments borrow(std::size_t i) override { return moments_.at(i); }
  void give_back([[maybe_unused]] std::size_t i) override {}

  void read(std::size_t i, const Moments& out) override { copy(out, moments_.at(i)); }
  void write(std::size_t i, const Moments& in) override { copy(moments_.at(i), in); }

 private:
  static void copy(const Moments& to, const Moments& from) {
    to.first.copy_from(from.first);
    to.second.copy_from(from.second);
  }

  std::vector<Moments> moments_;
};

}  // namespace

std::unique_ptr<MomentStore> moments_on_device() { return std::make_unique<MomentsOnDevice>(); }

}  // namespace ultra::optim
