#pragma once
/// @file
/// Linear layers whose three products are computed in fp8, whatever splits or schedules them.
///
/// | product         | factors             | formats                                  |
/// |-----------------|---------------------|------------------------------------------|
/// | y = x W^T       | input, weight       | e4m3, e4m3                               |
/// | d_x = d_y W     | gradient, weight    | e5m2 (e4m3 with scales of tiles), e4m3   |
/// | d_W = d_y^T x   | gradient, input     | e5m2 (likewise), e4m3                    |
///
/// The layer wraps another one, which may be split over ranks: it puts input, weight and output
/// gradient on the grid of fp8 and lets that layer multiply. The input is kept as fp8 codes.
///
/// Scales: of the whole tensor, however many ranks hold parts of it. A weight is split over tp; an
/// activation or a gradient over the ranks of tp and cp, one micro-batch of which is a tensor.
/// Tokens of padding are part of it, so with sequences that do not divide, per-tensor scales can differ
/// from those of one rank.
/// Source: arXiv 2209.05433, sec. 5; DeepSeek-V3, arXiv 2412.19437, sec. 3.3. Deviation: for d_W
/// DeepSeek-V3 quantises anew, in tiles of 128 tokens; here the tiles of the other products are
/// used, because tokens are on different ranks in different layouts.

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "chapters/10_mixed_precision/fp8/fp8_recipe.hpp"
#include "chapters/10_mixed_precision/fp8/scaled_grid.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/ops/fp8/fp8_products.hpp"

namespace ultra::mixed_precision {

/// After the name of the first weight of a layer: the name of its history of largest magnitudes.
inline constexpr std::string_view kHistorySuffix = ".fp8_amax_history";

/// @brief What fp8 layers of a rank have to know.
struct Fp8Scope {
  Fp8Recipe recipe;                               ///< of all layers
  Communicator tp;                                ///< ranks that hold parts of a weight
  Communicator tokens;                            ///< those of tp and cp: parts of an activation
  std::vector<nn::Replication> history_copies{};  ///< all ranks that hold the layer
};

/// @brief A tensor on the grid.
struct OnGrid {
  Tensor numbers;  ///< in the shape and dtype of the tensor
  Tensor scales;   ///< [tiles] of f32
};

/// @brief The tensors of a layer, put on the grid: its input, its weights and its gradients.
class Fp8Tensors {
 public:
  /// @param weights  of the layer, in the order of its outputs; outlive this.
  Fp8Tensors(const nn::BuildContext& context, std::vector<nn::Parameter*> weights, Fp8Scope scope);

  /// @brief The input on the grid.
  /// @param x  [batch, local_seq, in_features of this rank].
  [[nodiscard]] OnGrid input(const Tensor& x, const nn::Pass& pass) const;
  /// @brief After the layer's forward pass: replaces the "input" that it has saved by codes; by x,
  /// where that can be made again.
  void pack_input(const Tensor& x, const OnGrid& input, nn::Saved& saved) const;
  /// @brief Before its backward pass: brings the input back, also one that was made again.
  void unpack_input(nn::Saved& saved) const;
  /// @brief The format of gradients of outputs.
  [[nodiscard]] Fp8 gradient_format() const { return scope_.recipe.gradient_format(); }
  /// @brief The gradient of output `map`, on the grid.
  [[nodiscard]] Tensor gradient(std::size_t map, const Tensor& d_y, const nn::Pass& pass) const;

  /// @brief Weights on the grid while it lives; then they are what they were. Products with them may be
  /// computed in fp8 (ops::Fp8Products), where no tile is cut.
  class WeightsOnGrid {
   public:
    /// @param tensors  outlives this.
    /// @param left     the format of what is multiplied with the weights.
    WeightsOnGrid(const Fp8Tensors& tensors, const nn::Pass& pass, Fp8 left);
    ~WeightsOnGrid();
    WeightsOnGrid(const WeightsOnGrid&) = delete;
    WeightsOnGrid& operator=(const WeightsOnGrid&) = delete;

   private:
    std::span<nn::Parameter* const> weights_;
    std::vector<Tensor> values_;  // that the optimizer knows
    std::optional<ops::Fp8Products> products_;
  };

  /// @brief The layer's parameters: its weights, and the history if it has one.
  [[nodiscard]] std::vector<nn::Parameter*> parameters() const;

 private:
  /// One of the tensors: its place in the history, its format and the ranks that have parts of it.
  struct Role {
    std::size_t place;
    Fp8 format;
    const Communicator* holders;  // null: what a tile needs is here
    bool notes;                   // whether its largest magnitude counts for the next scales
  };

  [[nodiscard]] OnGrid put_on_grid(const Tensor& x, const GridPart& part, const Role& role) const;
  [[nodiscard]] Tensor scales_of(const Tensor& x, const GridPart& part, const Role& role) const;
  [[nodiscard]] Tensor weight_on_grid(std::size_t map, const nn::Pass& pass) const;
  [[nodiscard]] GridPart token_part(const Tensor& x, const Range& features, std::size_t all) const;
  [[nodiscard]] GridPart input_part(const Tensor& x) const;
  [[nodiscard]] bool has_tiles_of_products() const;
  [[nodiscard]] const Communicator* holders_of_tokens(const GridPart& part) const;
  [[nodiscard]] Tensor history_of(std::size_t place) const;

  std::vector<nn::Parameter*> weights_;
  Fp8Scope scope_;
  DType compute_;
  std::unique_ptr<nn::Parameter> history_;  // null unless scaling is delayed
  // Places of the history that have been seen to have steps: on a device the host asks until then, and
  // a tensor that is all zeros for a whole history has a scale of 1 afterwards, not its own.
  mutable std::set<std::size_t> have_steps_;
};

/// @brief Linear maps of one input, in fp8. Saves what the layer inside does, the "input" as codes, and
/// "input_scales".
class Fp8Projections : public nn::Projections {
 public:
  /// @param maps  multiplies; all of its parameters are weights.
  Fp8Projections(const nn::BuildContext& context, std::unique_ptr<nn::Projections> maps,
                 Fp8Scope scope);

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return tensors_.parameters(); }

 private:
  std::unique_ptr<nn::Projections> maps_;
  Fp8Tensors tensors_;
};

/// @brief One linear map in fp8. Saves as Fp8Projections.
class Fp8Linear : public nn::Layer {
 public:
  /// @param map  multiplies; its only parameter is the weight.
  Fp8Linear(const nn::BuildContext& context, std::unique_ptr<nn::Layer> map, Fp8Scope scope);

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return tensors_.parameters(); }

 private:
  std::unique_ptr<nn::Layer> map_;
  Fp8Tensors tensors_;
};

}  // namespace ultra::mixed_precision
