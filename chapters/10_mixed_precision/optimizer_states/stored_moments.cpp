#include "chapters/10_mixed_precision/optimizer_states/stored_moments.hpp"

namespace ultra::mixed_precision {
namespace {

class StoredMoments : public optim::MomentStore {
 public:
  explicit StoredMoments(MakeStoredMoment make) : make_(std::move(make)) {}

  void allocate(std::span<const Tensor> values) override {
    for (const Tensor& value : values) {
      tensors_.push_back({.first = make_(value.device(), value.numel(), MomentKind::kFirst),
                          .second = make_(value.device(), value.numel(), MomentKind::kSecond),
                          .shape = value.shape(),
                          .dtype = accumulation_dtype(value.dtype()),
                          .device = value.device()});
    }
  }

  std::size_t size() const override { return tensors_.size(); }

  optim::Moments borrow(std::size_t i) override {
    const Stored& stored = tensors_.at(i);
    borrowed_ = {.first = Tensor::empty(stored.device, stored.shape, stored.dtype),
                 .second = Tensor::empty(stored.device, stored.shape, stored.dtype)};
    read(i, borrowed_);
    return borrowed_;
  }

  void give_back(std::size_t i) override {
    write(i, borrowed_);
    borrowed_ = {};
  }

  void read(std::size_t i, const optim::Moments& out) override {
    tensors_.at(i).first->load(out.first);
    tensors_.at(i).second->load(out.second);
  }

  void write(std::size_t i, const optim::Moments& in) override {
    tensors_.at(i).first->store(in.first);
    tensors_.at(i).second->store(in.second);
  }

 private:
  /// The moments of one tensor.
  struct Stored {
    std::unique_ptr<StoredMoment> first;
    std::unique_ptr<StoredMoment> second;
    Shape shape;
    DType dtype;  // in which they are borrowed
    Device device;
  };

  MakeStoredMoment make_;
  std::vector<Stored> tensors_;
  optim::Moments borrowed_;
};

}  // namespace

std::unique_ptr<optim::MomentStore> stored_moments(MakeStoredMoment make) {
  return std::make_unique<StoredMoments>(std::move(make));
}

}  // namespace ultra::mixed_precision
