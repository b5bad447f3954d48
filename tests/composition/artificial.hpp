#pragma once
/// @file
/// Techniques that only tests have: an axis that shares nothing but the work, and experts that some tokens
/// do not use.

#include "common/nn/layer_factory.hpp"
#include "common/ops/elementwise.hpp"
#include "common/train/cli/technique.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::composition {

/// @brief An axis along which all ranks compute the same, each for its share of the loss.
///
/// Every parameter is in one group more, in which all gradients are partial; and the data group is
/// another one than the plan's, so that nothing can be found by its name or by its size alone.
class SecondAxis : public train::Technique {
 public:
  explicit SecondAxis(int ranks) : ranks_(ranks) {}

  std::optional<Axis> axis() const override {
    return Axis{.name = "second",
                .size = static_cast<std::size_t>(ranks_),
                .splits = Splits::kTokens,
                .nearness = 30,
                .flag = "a second axis"};
  }

  void configure_plan(train::Plan& plan, const train::Setup&) const override {
    plan.groups.add("second axis", plan.mesh.along("second"));
    plan.groups.add("replicas", plan.mesh.along(kReplicaAxis));
    for (train::MicroBatch& micro_batch : plan.micro_batches) micro_batch.normalizer *= ranks_;
  }

  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup&) const override {
    factories.push_back(std::make_unique<Shared>(
        *factories.back(), nn::Replication{.group = "second axis",
                                           .size = ranks_,
                                           .index = plan.mesh.along("second").rank(),
                                           .gradients = nn::CopyGradients::kPartial}));
  }

 private:
  /// Says of every parameter that it is shared.
  class Shared : public nn::FactoryWrapper {
   public:
    Shared(nn::LayerFactory& inner, nn::Replication replication)
        : FactoryWrapper(inner), replication_(std::move(replication)) {}

    std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                    const nn::NormSpec& spec) override {
      return shared(inner().norm(context, spec));
    }
    std::unique_ptr<nn::Projections> column_linear(
        const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override {
      return shared(inner().column_linear(context, specs));
    }
    std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                          const nn::LinearSpec& spec) override {
      return shared(inner().row_linear(context, spec));
    }
    std::unique_ptr<nn::TokenEmbedding> embedding(const nn::BuildContext& context) override {
      return shared(inner().embedding(context));
    }

   private:
    template <class Part>
    std::unique_ptr<Part> shared(std::unique_ptr<Part> part) const {
      for (nn::Parameter* parameter : part->parameters()) {
        parameter->replicate(replication_);
        parameter->set_data_group("replicas");
      }
      return part;
    }

    nn::Replication replication_;
  };

  int ranks_;
};

/// @brief Two experts, each a weight [hidden] that scales what goes into a block's feed-forward part. The
/// first half of the global batch uses the first, the other half the second: but in every third sequence
/// none, and in the second step nobody uses the second expert.
class TwoExperts : public train::Technique {
 public:
  /// @param halves  of the ranks that hold one expert each; 1: every rank holds both.
  explicit TwoExperts(int halves) : halves_(halves) {}

  void configure_plan(train::Plan& plan, const train::Setup&) const override {
    const Communicator& replicas = plan.mesh.along(kReplicaAxis);
    const auto half = [&](int rank) { return 2 * rank >= replicas.size(); };
    plan.groups.add("experts", halves_ == 1 ? replicas : replicas.split(half));
  }

  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override {
    const Range held = halves_ == 1 ? Range{0, 2} : Range{half_of(plan), half_of(plan) + 1};
    factories.push_back(
        std::make_unique<Factory>(*factories.back(), held, plan, setup.train.global_batch));
  }

 private:
  class Layer : public nn::Layer {
   public:
    Layer(const nn::BuildContext& context, std::unique_ptr<nn::Layer> inner, std::size_t layer,
          Range held, const train::Plan& plan, std::size_t global_batch)
        : inner_(std::move(inner)),
          experts_({.name = "experts." + std::to_string(layer),
                    .global_shape = {2, context.config.hidden_size},
                    .shard = {held, {0, context.config.hidden_size}},
                    .initializer = {.standard_deviation = 0.5}},
                   context.device, context.precision, context.seed, context.values),
          first_(plan.share.sequences.begin),
          micro_batches_(plan.micro_batches),
          global_batch_(global_batch) {
      experts_.allow_idle();
      experts_.set_data_group("experts");
    }

    Tensor forward(const Tensor& x, nn::Saved& saved) override {
      const Tensor y = inner_->forward(x, saved.child("inner"));
      const auto expert = expert_of(saved.pass());
      if (!expert) return y;
      saved.put("input", x);
      add_product(y, x, weight(*expert));
      return y;
    }

    Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
      const Tensor d_x = inner_->backward(d_y, saved.child("inner"));
      const auto expert = expert_of(saved.pass());
      if (!expert) return d_x;
      add_product(d_x, d_y, weight(*expert));
      experts_.add_grad([this, d_y, x = saved.take("input"), row = *expert - held().begin](
                            const Tensor& grad, ops::Write write) {
        if (write == ops::Write::kOverwrite) grad.fill(0.0);
        add_column_sums(grad.slice(0, {row, row + 1}), d_y, x);
      });
      return d_x;
    }

    std::vector<nn::Parameter*> parameters() override {
      std::vector<nn::Parameter*> all = inner_->parameters();
      all.push_back(&experts_);
      return all;
    }

   private:
    [[nodiscard]] Range held() const { return experts_.shard()[0]; }
    [[nodiscard]] Tensor weight(std::size_t expert) const {
      const std::size_t row = expert - held().begin;
      return experts_.value().slice(0, {row, row + 1});
    }

    /// The expert that a pass uses, by its place in the global batch.
    [[nodiscard]] std::optional<std::size_t> expert_of(const nn::Pass& pass) const {
      const std::size_t sequence = first_ + micro_batches_[pass.micro_batch].sequences.begin;
      const std::size_t expert = 2 * sequence / global_batch_;
      if (sequence % 3 == 0 || (pass.step == 1 && expert == 1)) return {};
      return expert;
    }

    /// to[row] += x[row] * w, for every row.
    static void add_product(const Tensor& to, const Tensor& x, const Tensor& w) {
      dispatch_float(to.dtype(), [&]<class T>() {
        const std::span<T> sums = to.span<T>();
        const std::span<const T> values = x.span<T>();
        const std::span<const T> weights = w.span<T>();
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i] += values[i] * weights[i % weights.size()];
        }
      });
    }

    /// sums += the products of all rows of a and b.
    static void add_column_sums(const Tensor& sums, const Tensor& a, const Tensor& b) {
      dispatch_float(a.dtype(), [&]<class T>() {
        const std::span<T> columns = sums.span<T>();
        const std::span<const T> first = a.span<T>();
        const std::span<const T> second = b.span<T>();
        for (std::size_t i = 0; i < first.size(); ++i) {
          columns[i % columns.size()] += first[i] * second[i];
        }
      });
    }

    std::unique_ptr<nn::Layer> inner_;
    nn::Parameter experts_;
    std::size_t first_;  // sequence of this rank's share
    std::vector<train::MicroBatch> micro_batches_;
    std::size_t global_batch_;
  };

  class Factory : public nn::FactoryWrapper {
   public:
    Factory(nn::LayerFactory& inner, Range held, const train::Plan& plan, std::size_t global_batch)
        : FactoryWrapper(inner), held_(held), plan_(plan), global_batch_(global_batch) {}

    std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                            std::size_t layer) override {
      return std::make_unique<Layer>(context, inner().feed_forward(context, layer), layer, held_,
                                     plan_, global_batch_);
    }

   private:
    Range held_;
    const train::Plan& plan_;
    std::size_t global_batch_;
  };

  [[nodiscard]] static std::size_t half_of(const train::Plan& plan) {
    return 2 * static_cast<std::size_t>(plan.mesh.along(kReplicaAxis).rank()) >=
                   static_cast<std::size_t>(plan.mesh.along(kReplicaAxis).size())
               ? 1
               : 0;
  }

  int halves_;
};

}  // namespace ultra::composition
