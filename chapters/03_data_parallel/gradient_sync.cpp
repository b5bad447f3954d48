#include "chapters/03_data_parallel/gradient_sync.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/gradient_average.hpp"
#include "chapters/03_data_parallel/gradient_buckets.hpp"
#include "chapters/03_data_parallel/gradient_watch.hpp"

namespace ultra::data_parallel {
namespace {

class SyncAfterBackward : public GradientSync {
 public:
  SyncAfterBackward(nn::Model& model, Communicator dp) : model_(model), dp_(std::move(dp)) {}

  void begin(Pass pass) override { state_.begin(pass); }

  void finish() override {
    state_.finish();
    for (const nn::Parameter* parameter : model_.parameters()) {
      if (!parameter->grad().defined()) throw no_gradient(*parameter);
    }
    average_gradients(model_, dp_);
  }

 private:
  nn::Model& model_;
  Communicator dp_;
  StepState state_;
};

std::vector<std::size_t> counts_of(const nn::Model& model) {
  std::vector<std::size_t> counts;
  for (const nn::Parameter* parameter : model.parameters()) {
    counts.push_back(parameter->count());
  }
  return counts;
}

// [region sync_in_buckets]
class BucketSync : public GradientSync {
 public:
  BucketSync(nn::Model& model, std::size_t capacity, Flush flush,
             const MakeBucketExchange& make_exchange, std::size_t multiple)
      : buckets_(model, assign_buckets(counts_of(model), capacity), multiple),
        flush_(flush),
        watch_(model, buckets_.buckets(), [this](std::size_t bucket) { bucket_ready(bucket); }) {
    const nn::Parameter& first = *model.parameters().front();
    for (std::size_t b = 0; b < buckets_.buckets().size(); ++b) {
      exchanges_.push_back(make_exchange(buckets_.contents(b), first.device(), first.dtype()));
    }
  }

  void begin(Pass pass) override { watch_.begin(pass); }

  void finish() override {
    watch_.finish();
    if (flush_ == Flush::kAfterBackward) {
      for (std::size_t b = 0; b < exchanges_.size(); ++b) exchanges_[b]->start(buckets_.flat(b));
    }
    for (const auto& exchange : exchanges_) exchange->finish();
    buckets_.release();
  }

 private:
  void bucket_ready(std::size_t bucket) {
    if (flush_ == Flush::kWhenReady) exchanges_[bucket]->start(buckets_.flat(bucket));
  }

  GradientBuckets buckets_;
  Flush flush_;
  std::vector<std::unique_ptr<BucketExchange>> exchanges_;  // by bucket
  GradientWatch watch_;
};
// [/region]

}  // namespace

std::unique_ptr<GradientSync> sync_after_backward(nn::Model& model, const Communicator& dp) {
  return std::make_unique<SyncAfterBackward>(model, dp);
}

std::unique_ptr<GradientSync> sync_in_buckets(nn::Model& model, std::size_t capacity, Flush flush,
                                              const MakeBucketExchange& exchange,
                                              std::size_t multiple) {
  return std::make_unique<BucketSync>(model, capacity, flush, exchange, multiple);
}

}  // namespace ultra::data_parallel
