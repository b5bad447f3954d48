#include "chapters/01_memory/written_parts.hpp"

#include "chapters/01_memory/adamw_step.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "chapters/01_memory/rms_norm_backward.hpp"
#include "common/nn/layers/norm.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/rules.hpp"

namespace ultra::memory {
namespace {

class WrittenRmsNorm : public nn::RmsNorm {
 public:
  using RmsNorm::RmsNorm;

 protected:
  Tensor gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                   const Tensor& d_weight) const override {
    if (has_streams(x.device().kind()) || ops::sums_by_trees(x.device())) {
      return RmsNorm::gradients(d_y, x, reciprocal_rms, d_weight);
    }
    d_weight.fill(0.0);
    const DType sums = d_weight.dtype();  // rows of two bytes are worked on in f32
    const Tensor d_y_rows = cast(d_y, sums);
    const Tensor x_rows = cast(x, sums);
    const Tensor weights = cast(weight().value(), sums);
    const Tensor d_x = Tensor::empty(x.device(), x.shape(), sums);
    dispatch_float(sums, [&]<class T>() {
      const std::size_t hidden = x.size(-1);
      const std::span<const T> r = reciprocal_rms.span<T>();
      for (std::size_t row = 0; row < r.size(); ++row) {
        const auto row_of = [&](const Tensor& t) {
          return t.span<T>().subspan(row * hidden, hidden);
        };
        rms_norm_backward_row<T>(row_of(d_y_rows), row_of(x_rows), weights.span<T>(), r[row],
                                 row_of(d_x), d_weight.span<T>());
      }
    });
    return cast(d_x, x.dtype());
  }
};

}  // namespace

std::unique_ptr<nn::Layer> WrittenNormFactory::norm(const nn::BuildContext& context,
                                                    const nn::NormSpec& spec) {
  return std::make_unique<WrittenRmsNorm>(context, spec);
}

void wrap_written_parts(train::FactoryStack& factories, const RecomputeConfig& recompute) {
  factories.push_back(std::make_unique<WrittenNormFactory>(*factories.back()));
  factories.push_back(std::make_unique<RecomputeFactory>(*factories.back(), recompute));
}

void written_adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                   const Tensor& second_moment, const ops::AdamWStep& constants) {
  dispatch_float(value.dtype(), [&]<class T>() {
    adamw_step<T>(value.span<T>(), grad.span<T>(), first_moment.span<T>(), second_moment.span<T>(),
                  constants);
  });
}

optim::Rule written_rule(std::string_view optimizer) {
  return optimizer == "adamw" ? optim::adamw({}, written_adamw) : optim::make_rule(optimizer);
}

}  // namespace ultra::memory
