#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"

#include <utility>

#include "chapters/03_data_parallel/top_k_feedback.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {
namespace {

class CompressedExchange final : public BucketExchange {
 public:
  CompressedExchange(const Communicator& dp, std::shared_ptr<const Compressor> compressor,
                     ErrorFeedback feedback, const BucketContents& contents, const Device& device,
                     DType dtype)
      : dp_(dp.labeled(contents.label())),
        compressor_(std::move(compressor)),
        words_(compressor_->message_words(contents.count, dtype)) {
    if (feedback == ErrorFeedback::kOn) {
      residual_ = Tensor::zeros(device, {contents.count}, dtype, MemoryCategory::kCommunication);
    }
  }

  // [region start]
  void start(const Tensor& bucket) override {
    bucket_ = bucket;
    messages_ = Tensor::empty(bucket.device(), {size() * words_}, DType::kI32,
                              MemoryCategory::kCommunication);
    const Tensor own = message_of(checked_cast<std::size_t>(dp_.rank()));
    if (residual_.defined()) {
      compress_with_feedback(*compressor_, bucket, residual_, own);
    } else {
      compressor_->compress(bucket, own);
    }
    gather_ = dp_.all_gather(own, messages_);
  }
  // [/region]

  // [region finish]
  void finish() override {
    gather_.wait();  // before it, messages_ holds this replica's message alone
    bucket_.fill(0);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      compressor_->add_decompressed(message_of(rank), 1, bucket_);
    }
    bucket_ = Tensor();
    messages_ = Tensor();
  }
  // [/region]

 private:
  [[nodiscard]] std::size_t size() const { return checked_cast<std::size_t>(dp_.size()); }

  [[nodiscard]] Tensor message_of(std::size_t rank) const {
    return messages_.slice(0, {rank * words_, (rank + 1) * words_});
  }

  Communicator dp_;
  std::shared_ptr<const Compressor> compressor_;
  std::size_t words_;  // of one message
  Tensor residual_;    // undefined without error feedback
  Tensor bucket_;      // from start() to finish()
  Tensor messages_;    // of all ranks, in their order; from start() to finish()
  Work gather_;
};

}  // namespace

MakeBucketExchange compressed_exchange(const Communicator& dp,
                                       std::shared_ptr<const Compressor> compressor,
                                       ErrorFeedback feedback) {
  return [=](const BucketContents& contents, const Device& device, DType dtype) {
    return std::make_unique<CompressedExchange>(dp, compressor, feedback, contents, device, dtype);
  };
}

}  // namespace ultra::data_parallel
