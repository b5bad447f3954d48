#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/base/numeric.hpp"

namespace ultra::tensor_parallel {

void add_tensor_groups(train::RankGroups& groups, const Communicator& tp,
                       std::size_t num_kv_heads) {
  groups.add(std::string(kTensorGroup), tp);
  const TensorParallelLayout layout{.tp = tp.size()};
  const auto copies = checked_cast<int>(layout.kv_copies(num_kv_heads));
  if (copies == 1) return;
  groups.add(std::string(kHeadGroup),
             copies == tp.size()
                 ? tp
                 : tp.split([copies](int rank) { return rank / copies; }, "kv copies"));
}

void TensorParallel::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void TensorParallel::validate(train::Setup&) { options_.validate(); }

void TensorParallel::validate_training(const train::Setup& setup) const {
  if (options_.splits()) options_.layout().validate(setup.train.model);
}

train::ExtraConfig TensorParallel::config(const train::Setup&) const { return options_.config(); }

std::vector<train::Question> TensorParallel::questions() const {
  if (options_.shapes == Shapes::kNone) return {};
  return {{"--shapes", train::Instead::kAnswer}};
}

std::optional<std::string> TensorParallel::answer(const train::Setup& setup) const {
  if (options_.shapes == Shapes::kNone) return {};
  const nn::ModelConfig& model = setup.train.model;
  return describe_shapes(options_.shapes, model,
                         {.size = setup.train.micro_batch, .seq_len = model.max_seq_len},
                         options_.layout());
}

Axis axis_of(std::size_t ranks) {
  return {.name = std::string(kAxis),
          .size = ranks,
          .splits = Splits::kMatrices,
          .nearness = 40,
          .flag = fmt::format("--tp {}", ranks)};
}

std::optional<Axis> TensorParallel::axis() const { return axis_of(options_.tp); }

// [region technique]
void TensorParallel::configure_plan(train::Plan& plan, const train::Setup& setup) const {
  if (options_.splits()) {
    add_tensor_groups(plan.groups, plan.mesh.along(kAxis), setup.train.model.num_kv_heads);
  }
}

void TensorParallel::wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                                 const train::Setup&) const {
  if (!options_.splits()) return;
  factories.push_back(std::make_unique<TensorParallelFactory>(
      *factories.back(), plan.mesh.along(kAxis), options_.sequence_parallel, options_.overlap));
}

void TensorParallel::configure_step(train::StepConfig& step_config,
                                    const train::Setup& setup) const {
  const std::size_t at_once = zero::zero_of(setup).options().muon_batch.value_or(0);
  step_config.sum_partial.offer(sum_partial_gradients);
  step_config.whole.offer([at_once](const train::Plan& plan) -> train::MakeWhole {
    const Communicator& tp = plan.mesh.along(kAxis);
    if (tp.size() == 1) return {};
    return [tp, at_once](const std::vector<const nn::Parameter*>& parameters) {
      return std::make_unique<zero::WholeMatrices>(zero::split_matrices(parameters, tp), tp,
                                                   train::MakeWhole(), at_once);
    };
  });
}
// [/region]

void TensorParallel::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (options_.splits()) formulas.clear();
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<TensorParallel>(); }

}  // namespace ultra::tensor_parallel
