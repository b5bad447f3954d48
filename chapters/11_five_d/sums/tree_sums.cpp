#include "chapters/11_five_d/sums/tree_sums.hpp"

#include <utility>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/sums/limits.hpp"
#include "chapters/11_five_d/sums/parted_norm.hpp"
#include "chapters/11_five_d/sums/tied_table.hpp"
#include "chapters/11_five_d/sums/tree_experts.hpp"
#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/train/gradients/tensor_tree.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::five_d {
namespace {

/// Maps that share their input, each with an exchange of its own.
class SeparateMaps : public nn::Projections {
 public:
  explicit SeparateMaps(std::vector<std::unique_ptr<nn::Projections>> maps)
      : maps_(std::move(maps)) {}

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override {
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      outputs.push_back(maps_[i]->forward(x, saved.child(std::to_string(i))).front());
    }
    return outputs;
  }

  Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override {
    Tensor d_x;
    for (std::size_t i = maps_.size(); i-- > 0;) {
      const Tensor part = maps_[i]->backward(d_y.subspan(i, 1), saved.child(std::to_string(i)));
      if (d_x.defined()) {
        ops::add_into(d_x, part);
      } else {
        d_x = part;
      }
    }
    return d_x;
  }

  std::vector<nn::Parameter*> parameters() override {
    std::vector<nn::Parameter*> all;
    for (const auto& map : maps_) {
      for (nn::Parameter* parameter : map->parameters()) all.push_back(parameter);
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<nn::Projections>> maps_;
};

/// What makes the gradient of a micro-batch whole, of whose node other ranks have parts: of each sequence,
/// or their own sequences. The exchange behind the step adds up what they all have: so the first one has
/// it, and the others have zeros.
std::function<void(const nn::Parameter&)> sum_of_parts(const train::Plan& plan, bool in_turn) {
  const Communicator& cp = plan.mesh.along(context_parallel::kAxis);
  if (!in_turn && cp.size() == 1) return {};
  return [&plan, cp, in_turn](const nn::Parameter& parameter) {
    const Communicator& ranks = in_turn ? plan.groups.at(parameter.data_group()) : cp;
    ranks.labeled("gradient of a micro-batch").all_reduce(parameter.grad()).wait();
    if (ranks.rank() > 0) parameter.grad().fill(0.0);
  };
}

/// One parameter's gradient, of which some micro-batches' nodes wait for their neighbours.
class GradientTree {
 public:
  /// @param uses  additions to it that a micro-batch makes.
  GradientTree(std::size_t leaves, std::size_t uses,
               std::function<void(const nn::Parameter&)> complete)
      : leaves_(leaves), uses_(uses), complete_(std::move(complete)), tree_(leaves) {}

  void step_begins() {
    tree_.clear();
    added_ = 0;
    made_ = 0;
  }

  /// The gradient of a micro-batch: the last one becomes the sum of all, the others are let go.
  void add(nn::Parameter& parameter, std::size_t leaf) {
    if (++made_ < uses_) return;
    made_ = 0;
    const bool is_last = ++added_ == leaves_;
    if (complete_) complete_(parameter);
    const bool is_all = tree_.add(
        leaf, is_last ? parameter.grad() : parameter.grad().clone(MemoryCategory::kGradients));
    ensure(is_all == is_last, "the last gradient completes the tree");
    if (!is_last) parameter.drop_grad();
  }

 private:
  std::size_t leaves_;
  std::size_t uses_;
  std::size_t made_ = 0;  // additions of this micro-batch
  std::function<void(const nn::Parameter&)> complete_;
  std::size_t added_ = 0;
  train::TensorTree tree_;
};

class TreeGradients : public train::StepObserver {
 public:
  TreeGradients(std::span<nn::Model* const> chunks, std::size_t micro_batches,
                const std::function<void(const nn::Parameter&)>& complete) {
    for (nn::Model* chunk : chunks) {
      for (nn::Parameter* parameter : chunk->parameters()) {
        auto tree =
            std::make_shared<GradientTree>(micro_batches, chunk->uses(*parameter), complete);
        trees_.push_back(tree);
        hooks_.push_back(parameter->on_grad_ready(
            [this, tree](nn::Parameter& of) { tree->add(of, micro_batch_); }));
      }
    }
  }

  void step_begins(const train::StepPlan&) override {
    for (const auto& tree : trees_) tree->step_begins();
  }

  void action_begins(const train::Action& action) override { micro_batch_ = action.micro_batch; }

 private:
  std::size_t micro_batch_ = 0;
  std::vector<std::shared_ptr<GradientTree>> trees_;
  std::vector<nn::HookHandle> hooks_;
};

}  // namespace

std::unique_ptr<train::StepObserver> join_gradients_by_tree(
    std::span<nn::Model* const> chunks, std::size_t micro_batches,
    const std::function<void(const nn::Parameter&)>& complete) {
  return std::make_unique<TreeGradients>(chunks, micro_batches, complete);
}

std::unique_ptr<nn::Projections> SeparateMapsFactory::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  if (specs.size() == 1) return inner().column_linear(context, specs);
  std::vector<std::unique_ptr<nn::Projections>> maps;
  for (const nn::LinearSpec& spec : specs) maps.push_back(inner().column_linear(context, {spec}));
  return std::make_unique<SeparateMaps>(std::move(maps));
}

void TreeSums::add_flags(CLI::App& app, train::Setup&) {
  train::Flags(app, "Sums")
      .add_one_of(
          "--sums", sums_, {"fast", "tree"},
          "the order of sums: fast, as each layout adds best; or tree, one for all layouts, which "
          "then agree in every bit");
}

void TreeSums::validate(train::Setup& setup) {
  if (by_trees() && setup.train.matmul.empty()) setup.train.matmul = "tree";
}

void TreeSums::validate_training(const train::Setup& setup) const {
  if (!by_trees()) return;
  train::reject_conflicts(conflicts(setup));
  expect_nodes(setup);
}

std::vector<train::Conflict> TreeSums::conflicts(const train::Setup& setup) const {
  return conflicts_with_trees(setup, by_trees());
}

std::vector<train::Conflict> TreeSums::conflicts_with_recording(const train::Setup&) const {
  return {train::not_recorded(std::string(kTreeSumsFlag),
                              "no machine that is known here computes so.", by_trees())};
}

train::ExtraConfig TreeSums::config(const train::Setup&) const {
  if (!by_trees()) return {};
  return {{"sums", sums_}};
}

train::Identity TreeSums::identity(const train::Setup&) const {
  if (!by_trees()) return {};
  return {{"--sums", sums_}};
}

void TreeSums::name_algorithms(train::AlgorithmNames& names) const {
  if (!by_trees()) return;
  names[OpKind::kAllReduce] = kTreeExchange;
  names[OpKind::kReduceScatter] = kTreeExchange;
}

void TreeSums::configure_plan(train::Plan& plan, const train::Setup& setup) const {
  if (!by_trees() || !deals_in_turn(setup)) return;
  const Communicator& replicas = plan.mesh.along(kReplicaAxis);
  const auto count = static_cast<std::size_t>(replicas.size());
  auto turn = static_cast<std::size_t>(replicas.rank());
  plan.share.sequences = {0, setup.train.global_batch};
  for (train::MicroBatch& micro_batch : plan.micro_batches) {
    const std::size_t size = micro_batch.sequences.size();
    micro_batch.sequences = {turn * size, (turn + 1) * size};
    turn += count;
  }
}

void TreeSums::wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                           const train::Setup& setup) const {
  if (!by_trees()) return;
  factories.push_back(std::make_unique<SeparateMapsFactory>(*factories.back()));
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  const Communicator& tp = plan.mesh.along(tensor_parallel::kAxis);
  const expert_parallel::ExpertParallelOptions& experts = expert_parallel::options_of(setup);
  if (experts.has_experts()) {
    const nn::ModelConfig& model = setup.train.model;
    const auto scope =
        expert_parallel::scope_of(experts.config(model.ffn_hidden_size), plan, setup);
    factories.push_back(std::make_unique<TreeExpertsFactory>(
        *factories.back(), scope, tp, ops::SumTree::of_axis(model.max_seq_len).leaf(),
        tensor->options().layout().sequence_parallel));
  }
  if (setup.train.model.tied_embeddings) {
    const Communicator& stages = plan.mesh.along(pipeline_parallel::kAxis);
    factories.push_back(std::make_unique<TiedTableFactory>(
        *factories.back(), tp, tensor->options().layout().sequence_parallel,
        stages.size() == 1 ? stages : plan.groups.at(nn::kTiedGroup)));
  }
  factories.push_back(std::make_unique<PartedNormFactory>(
      *factories.back(), tp, tensor->options().layout().splits_sequences()));
}

void TreeSums::configure_step(train::StepConfig& step_config, const train::Setup& setup) const {
  const bool in_turn = deals_in_turn(setup);
  if (!by_trees() || (in_turn && joins_shards(setup))) return;
  step_config.observers.emplace_back(
      [in_turn](const train::ModelScope& scope) -> std::unique_ptr<train::StepObserver> {
        const std::size_t micro_batches = scope.plan.micro_batches.size();
        if (micro_batches == 1) return std::make_unique<train::StepObserver>();
        return join_gradients_by_tree(scope.chunks, micro_batches,
                                      sum_of_parts(scope.plan, in_turn));
      });
}

void TreeSums::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (by_trees()) formulas.clear();  // they count no nodes that wait
}

std::unique_ptr<train::Technique> tree_sums() { return std::make_unique<TreeSums>(); }

}  // namespace ultra::five_d
