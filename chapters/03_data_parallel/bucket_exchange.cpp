#include "chapters/03_data_parallel/bucket_exchange.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/comm/work.hpp"

namespace ultra::data_parallel {
namespace {

class AllReduceExchange : public BucketExchange {
 public:
  explicit AllReduceExchange(Communicator dp) : dp_(std::move(dp)) {}

  void start(const Tensor& bucket) override { work_ = dp_.all_reduce(bucket); }

  void finish() override {
    work_.wait();    // or the optimizer would read sums that are not complete
    work_ = Work();  // the handle keeps the bucket's memory alive
  }

 private:
  Communicator dp_;
  Work work_;
};

}  // namespace

std::string BucketContents::label() const { return fmt::format("bucket {}", number); }

MakeBucketExchange all_reduce_exchange(const Communicator& dp) {
  return [dp](const BucketContents& contents, const Device&, DType) {
    return std::make_unique<AllReduceExchange>(dp.labeled(contents.label()));
  };
}

}  // namespace ultra::data_parallel
