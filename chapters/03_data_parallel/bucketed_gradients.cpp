#include "chapters/03_data_parallel/bucketed_gradients.hpp"

#include <fmt/format.h>

#include <utility>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "common/base/errors.hpp"

namespace ultra::data_parallel {
namespace {

Tensor gradient_memory(const nn::Parameter& parameter, const Shape& shape) {
  return Tensor::empty(parameter.device(), shape, parameter.grad_dtype(),
                       MemoryCategory::kGradients);
}

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

GradientBuckets::GradientBuckets(std::vector<nn::Parameter*> parameters,
                                 std::vector<Bucket> buckets, std::size_t multiple)
    : parameters_(std::move(parameters)),
      buckets_(std::move(buckets)),
      multiple_(multiple),
      flat_(buckets_.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    std::size_t begin = 0;
    for (const std::size_t p : buckets_[b].parameters) {
      nn::Parameter& parameter = *parameters_.at(p);
      const Range place{begin, begin + parameter.count()};
      begin = place.end;
      hooks_.push_back(parameter.allocate_grad_by(
          [this, b, place, &parameter] { return allocate(b, place, parameter); }));
    }
    ensure(begin == buckets_[b].count, "a bucket counts the elements of its parameters");
  }
}

Tensor GradientBuckets::allocate(std::size_t bucket, Range place, const nn::Parameter& parameter) {
  Tensor& flat = flat_[bucket];
  if (!flat.defined()) flat = new_flat(bucket);
  return flat.slice(0, place).view(parameter.shape());
}

Tensor GradientBuckets::new_flat(std::size_t bucket) const {
  const std::size_t count = buckets_[bucket].count;
  const std::size_t filled_up = (count + multiple_ - 1) / multiple_ * multiple_;
  Tensor flat = gradient_memory(*parameters_[buckets_[bucket].parameters.front()], {filled_up});
  if (filled_up > count) flat.slice(0, {count, filled_up}).fill(0.0);
  return flat;
}

BucketContents GradientBuckets::contents(std::size_t bucket) const {
  BucketContents contents{.number = bucket, .shapes = {}, .count = buckets_.at(bucket).count};
  for (const std::size_t p : buckets_[bucket].parameters) {
    contents.shapes.push_back(parameters_[p]->shape());
  }
  return contents;
}

const Tensor& GradientBuckets::flat(std::size_t bucket) const {
  const Tensor& flat = flat_.at(bucket);
  for (const std::size_t p : buckets_[bucket].parameters) {
    if (parameters_[p]->grad().shares_storage(flat)) continue;
    throw ConfigError(
        fmt::format("the gradient of {} does not stand in bucket {}: it was there before the step "
                    "began. Drop the model's gradients after each step (Model::drop_grads).",
                    parameters_[p]->name(), bucket));
  }
  return flat;
}

void GradientBuckets::release() {
  for (Tensor& flat : flat_) flat = Tensor();
}

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
