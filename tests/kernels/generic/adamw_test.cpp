// AdamW of many tensors in a launch: the paper's formula bit for bit, whatever stands beside an element.
// Covers: kernels/generic/elements/adamw.hpp.
#include "kernels/generic/elements/adamw.hpp"

#include <cmath>

#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace adamw_test {

// A place for tensors one behind the other, with gaps between them.
template <typename T>
struct Pool {
  std::string name;
  std::vector<T> numbers = {};

  // Where a tensor of so many of them begins.
  template <typename Draw>
  std::size_t put(std::size_t count, std::size_t gap, const Draw& draw) {
    const std::size_t begin = numbers.size() + gap;
    while (numbers.size() < begin + count) numbers.push_back(static_cast<T>(draw()));
    return begin;
  }
};

// Where the operands of a tensor begin.
struct Placed {
  std::size_t count, value, grad, first, second, rounded;
  bool decays;
};

constexpr AdamWStep kStep{.learning_rate = 3e-2,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .epsilon = 1e-8,
                          .weight_decay = 0.1,
                          .gradient_scale = 0.37,
                          .step = 3};

class ManyTensors : public PlainTest {
 protected:
  // Sizes around a launch's blocks, at places that suit packs or do not.
  void draw(std::size_t tensors) {
    const auto draw_number = [this] { return static_cast<float>(between(-900, 900)) / 128.0F; };
    const auto draw_square = [this] { return static_cast<float>(between(1, 900)) / 128.0F; };
    for (std::size_t i = 0; i < tensors; ++i) {
      const bool is_large = i % 40 == 7;
      const auto count = static_cast<std::size_t>(between(0, is_large ? 9000 : 70));
      const auto gap = [&, same = static_cast<std::size_t>(between(0, 3)),
                        differ = between(0, 1) == 1](std::size_t now) {
        const std::size_t phase = differ ? static_cast<std::size_t>(between(0, 3)) : same;
        return (4 - now % 4) % 4 + phase;
      };
      Placed& at = placed.emplace_back();
      at.count = count;
      at.decays = between(0, 1) == 1;
      at.value = values.put(count, gap(values.numbers.size()), draw_number);
      at.grad = grads.put(count, gap(grads.numbers.size()), draw_number);
      at.first = firsts.put(count, gap(firsts.numbers.size()), draw_number);
      at.second = seconds.put(count, gap(seconds.numbers.size()), draw_square);
      at.rounded = rounded.put(count, gap(rounded.numbers.size()), draw_number);
    }
  }

  Pool<float> values{"values"}, grads{"grads"}, firsts{"firsts"}, seconds{"seconds"},
      rounded{"rounded"};
  std::vector<Placed> placed;

  template <typename T>
  static std::vector<T> as(const Pool<float>& pool) {
    std::vector<T> numbers;
    for (const float x : pool.numbers) numbers.push_back(static_cast<T>(x));
    return numbers;
  }

  // Updates all tensors, and compares every number, those of the gaps too.
  // Sum: the type in which an element is computed.
  template <typename Sum, typename Value, typename Grad, typename Rounded>
  void check(std::size_t tensors, bool rounds) {
    placed.clear();
    draw(tensors);
    std::vector<Value> value = as<Value>(values);
    const std::vector<Grad> grad = as<Grad>(grads);
    std::vector<Sum> first = as<Sum>(firsts);
    std::vector<Sum> second = as<Sum>(seconds);
    std::vector<Rounded> narrow = as<Rounded>(rounded);
    Checked<Value> value_there("value", value);
    const Checked<Grad> grad_there("grad", grad);
    Checked<Sum> first_there("first", first);
    Checked<Sum> second_there("second", second);
    Checked<Rounded> narrow_there("rounded", narrow);

    std::vector<AdamWTensor> list;
    std::size_t not_empty = 0;
    for (const Placed& at : placed) {
      list.push_back(
          {.value = {number_of<Value>(), value_there.data() + at.value},
           .grad = {number_of<Grad>(), grad_there.data() + at.grad},
           .first_moment = {number_of<Sum>(), first_there.data() + at.first},
           .second_moment = {number_of<Sum>(), second_there.data() + at.second},
           .rounded =
               rounds ? Target{number_of<Rounded>(), narrow_there.data() + at.rounded} : Target{},
           .count = at.count,
           .decays = at.decays});
      not_empty += at.count > 0 ? 1 : 0;
      for (std::size_t i = 0; i < at.count; ++i) {
        const Sum updated = expected<Sum>(static_cast<Sum>(widened(value[at.value + i])),
                                          static_cast<Sum>(widened(grad[at.grad + i])),
                                          first[at.first + i], second[at.second + i], at.decays);
        value[at.value + i] = static_cast<Value>(updated);
        if (rounds) narrow[at.rounded + i] = static_cast<Rounded>(static_cast<float>(updated));
      }
    }
    simt::Report report;
    adamw<kChecked>(list.data(), list.size(), kStep, {.report = &report});

    EXPECT_EQ(report.launches.size(), (not_empty + kTensorsOfLaunch - 1) / kTensorsOfLaunch);
    expect_equal(value_there.download(), value);
    expect_equal(first_there.download(), first);
    expect_equal(second_there.download(), second);
    expect_equal(narrow_there.download(), narrow);
  }

 private:
  template <typename T>
  static T expected(T value, T grad, T& first, T& second, bool decays) {
    const T beta1 = static_cast<T>(kStep.beta1);
    const T beta2 = static_cast<T>(kStep.beta2);
    const T g = grad * static_cast<T>(kStep.gradient_scale);
    const T decay = static_cast<T>(1.0 - kStep.learning_rate * kStep.weight_decay);
    const T step_size =
        static_cast<T>(kStep.learning_rate / (1.0 - std::pow(kStep.beta1, kStep.step)));
    const T root_scale = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(kStep.beta2, kStep.step)));
    first = std::fma(beta1, first, static_cast<T>(1.0 - kStep.beta1) * g);
    second = std::fma(beta2, second, static_cast<T>(1.0 - kStep.beta2) * g * g);
    const T root = std::fma(std::sqrt(second), root_scale, static_cast<T>(kStep.epsilon));
    return std::fma(decays ? decay : T(1), value, -(step_size * first / root));
  }

  template <typename T>
  static void expect_equal(const std::vector<T>& found, const std::vector<T>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(widened(found[i]), widened(wanted[i])) << "element " << i;
    }
  }
};

TEST_F(ManyTensors, OfF32EqualTheFormulaBitForBit) {
  check<float, float, float, simt::bf16>(1, false);
  check<float, float, float, simt::bf16>(static_cast<std::size_t>(between(1, 200)), false);
}

TEST_F(ManyTensors, OfMasterWeightsAreRoundedInTheSamePass) {
  check<float, simt::bf16, float, simt::bf16>(static_cast<std::size_t>(between(1, 200)), true);
}

TEST_F(ManyTensors, OfF16GradientsAreRoundedInTheSamePass) {
  check<float, simt::half, float, simt::half>(static_cast<std::size_t>(between(1, 200)), true);
}

TEST_F(ManyTensors, OfTwoBytesAreComputedInF32) {
  check<float, simt::bf16, simt::bf16, simt::bf16>(static_cast<std::size_t>(between(1, 70)), false);
}

TEST_F(ManyTensors, OfF64EqualTheFormulaBitForBit) {
  check<double, double, double, simt::bf16>(static_cast<std::size_t>(between(1, 100)), false);
}

}  // namespace adamw_test
}  // namespace ultra::kernels::generic::test
