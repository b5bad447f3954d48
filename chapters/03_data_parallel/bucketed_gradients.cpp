#include "chapters/03_data_parallel/bucketed_gradients.hpp"

#include <utility>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "chapters/03_data_parallel/gradient_buckets.hpp"

namespace ultra::data_parallel {
namespace {

// [region sum_in_buckets]
class BucketedGradients : public train::GradientExchange {
 public:
  BucketedGradients(const std::vector<nn::Parameter*>& parameters, std::vector<Bucket> buckets,
                    Flush flush, const MakeBucketExchange& make_exchange, std::size_t multiple)
      : buckets_(parameters, std::move(buckets), multiple),
        queue_(buckets_.buckets(),
               [this, flush](std::size_t bucket) {
                 if (flush == Flush::kWhenReady) start(bucket);
               }),
        flush_(flush) {
    const nn::Parameter& first = *parameters.front();
    for (std::size_t b = 0; b < buckets_.buckets().size(); ++b) {
      exchanges_.push_back(make_exchange(buckets_.contents(b), first.device(), first.grad_dtype()));
    }
  }

  void step_begins() override { queue_.restart(); }

  void completed(std::size_t parameter) override { queue_.ready(parameter); }

  void finish() override {
    queue_.expect_all_flushed();
    if (flush_ == Flush::kAfterBackward) {
      for (std::size_t b = 0; b < exchanges_.size(); ++b) start(b);
    }
    for (const auto& exchange : exchanges_) exchange->finish();
    buckets_.release();
  }

 private:
  void start(std::size_t bucket) { exchanges_[bucket]->start(buckets_.flat(bucket)); }

  GradientBuckets buckets_;
  std::vector<std::unique_ptr<BucketExchange>> exchanges_;  // by bucket
  BucketQueue queue_;
  Flush flush_;
};
// [/region]

std::vector<std::size_t> counts_of(const std::vector<nn::Parameter*>& parameters) {
  std::vector<std::size_t> counts;
  for (const nn::Parameter* parameter : parameters) counts.push_back(parameter->count());
  return counts;
}

}  // namespace

std::unique_ptr<train::GradientExchange> sum_in_buckets(
    const std::vector<nn::Parameter*>& parameters, std::size_t capacity, Flush flush,
    const MakeBucketExchange& exchange, std::size_t multiple) {
  return sum_in_buckets(parameters, assign_buckets(counts_of(parameters), capacity), flush,
                        exchange, multiple);
}

std::unique_ptr<train::GradientExchange> sum_in_buckets(
    const std::vector<nn::Parameter*>& parameters, std::vector<Bucket> buckets, Flush flush,
    const MakeBucketExchange& exchange, std::size_t multiple) {
  return std::make_unique<BucketedGradients>(parameters, std::move(buckets), flush, exchange,
                                             multiple);
}

}  // namespace ultra::data_parallel
