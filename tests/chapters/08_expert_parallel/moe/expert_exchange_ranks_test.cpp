// Rows on their way to experts and back; and that shared experts are computed meanwhile.
//
// Covers: chapters/08_expert_parallel/moe/expert_exchange.hpp

#include "chapters/08_expert_parallel/moe/expert_exchange.hpp"

#include <mutex>

#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

class ExpertExchangeTest : public ultra::test::RandomTest {};

using Clock = CommObserver::Clock;

/// When each dispatch of a rank began, and when the rank began to wait for it.
class DispatchTrace : public CommObserver {
 public:
  explicit DispatchTrace(const Communicator& ranks) : ranks_(ranks) { ranks_.set_observer(this); }
  DispatchTrace(const DispatchTrace&) = delete;
  DispatchTrace& operator=(const DispatchTrace&) = delete;
  ~DispatchTrace() override { ranks_.set_observer(nullptr); }

  void operation_ended(const OperationInfo& info, std::size_t, Clock::time_point begin,
                       Clock::time_point) override {
    const std::scoped_lock lock(mutex_);
    if (info.label == "dispatch") begins.push_back(begin);
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point) override {
    const std::scoped_lock lock(mutex_);
    if (info.label == "dispatch") waits.push_back(begin);
  }

  std::vector<Clock::time_point> begins, waits;

 private:
  Communicator ranks_;
  std::mutex mutex_;
};

/// Says when linear maps with these names begin to work.
class WatchingFactory : public nn::DenseFactory {
 public:
  std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override {
    return std::make_unique<Watched>(DenseFactory::column_linear(context, specs), moments);
  }

  std::vector<Clock::time_point> moments;

 private:
  class Watched : public nn::Projections {
   public:
    Watched(std::unique_ptr<nn::Projections> inner, std::vector<Clock::time_point>& moments)
        : inner_(std::move(inner)), moments_(moments) {}
    std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override {
      moments_.push_back(Clock::now());
      return inner_->forward(x, saved);
    }
    Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override {
      moments_.push_back(Clock::now());
      return inner_->backward(d_y, saved);
    }
    std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

   private:
    std::unique_ptr<nn::Projections> inner_;
    std::vector<Clock::time_point>& moments_;
  };
};

// On a slowed link: rows are on their way, then the shared experts compute, then the rank waits. In
// both passes.
TEST_F(ExpertExchangeTest, SharedExpertsComputeWhileRowsTravel) {
  nn::ModelConfig model;
  model.hidden_size = 8;
  model.max_seq_len = 16;
  const MoeConfig moe{.num_experts = 2, .top_k = 2, .expert_ffn = 4, .shared_experts = 1};
  RankOptions options = ultra::test::on_call(ultra::test::in_rank_order());
  options.link = LinkSpeed{.latency = 0.02, .bytes_per_second = 1e9};
  const auto on_rank = [&](Communicator& ep) {
    const auto rank = static_cast<std::size_t>(ep.rank());
    const Communicator alone = ep.split(std::identity(), "alone");
    WatchingFactory factory;
    const nn::BuildContext context{model, Device::cpu(), DType::kF32, 1, nullptr, factory};
    MoeLayer layer(context, 0,
                   {.config = moe,
                    .ep = ep,
                    .region = nullptr,
                    .share = {.experts = {rank, rank + 1}, .data_group = "data"},
                    .router = {.cp = alone}});
    const Tensor x = Tensor::empty(Device::cpu(), {1, 16, 8}, DType::kF32);
    x.fill(0.5);
    DispatchTrace trace(ep);
    nn::Saved saved;
    const Tensor y = layer.forward(x, saved);
    static_cast<void>(layer.backward(y, saved));
    EXPECT_EQ(trace.begins.size(), 2U);
    EXPECT_EQ(trace.waits.size(), 2U) << "the link is too slow for rows to be there already";
    EXPECT_EQ(factory.moments.size(), 2U);
    for (std::size_t pass = 0; pass < std::min(trace.waits.size(), factory.moments.size());
         ++pass) {
      EXPECT_LT(trace.begins[pass], factory.moments[pass]) << "pass " << pass;
      EXPECT_LT(factory.moments[pass], trace.waits[pass]) << "pass " << pass;
    }
  };
  ultra::test::on_ranks(2, "a slowed link", on_rank, options);
}

}  // namespace
}  // namespace ultra::expert_parallel
