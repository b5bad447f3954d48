#include "chapters/03_data_parallel/bucket_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kNoBucket = static_cast<std::size_t>(-1);

}  // namespace

BucketQueue::BucketQueue(const std::vector<Bucket>& buckets, Flush flush)
    : flush_(std::move(flush)) {
  std::size_t parameters = 0;
  for (const Bucket& bucket : buckets) {
    sizes_.push_back(bucket.parameters.size());
    parameters += bucket.parameters.size();
  }
  bucket_of_.assign(parameters, kNoBucket);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const std::size_t parameter : buckets[b].parameters) {
      ensure(parameter < parameters && bucket_of_[parameter] == kNoBucket,
             "buckets hold each of the parameters 0, 1, ... once");
      bucket_of_[parameter] = b;
    }
  }
  restart();
}

// [region restart]
void BucketQueue::restart() {
  waiting_ = sizes_;
  ready_.assign(bucket_of_.size(), false);
  next_ = 0;
}
// [/region]

// [region ready]
void BucketQueue::ready(std::size_t parameter) {
  ensure(parameter < ready_.size(), "a parameter of one of the buckets");
  if (ready_[parameter]) {
    throw InternalError(fmt::format(
        "the gradient of parameter {} changed after it was ready: its bucket may be on its way",
        parameter));
  }
  ready_[parameter] = true;
  --waiting_[bucket_of_[parameter]];
  // A bucket that is full waits for those before it; the last of them lets it go.
  while (next_ < waiting_.size() && waiting_[next_] == 0) flush_(next_++);
}
// [/region]

// [region expect_all_flushed]
void BucketQueue::expect_all_flushed() const {
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing == ready_.end()) return;
  const auto parameter = static_cast<std::size_t>(missing - ready_.begin());
  throw InternalError(
      fmt::format("the backward pass is over, but the gradient of parameter {} is not ready: "
                  "bucket {} was not flushed",
                  parameter, bucket_of_[parameter]));
}
// [/region]

}  // namespace ultra::data_parallel
