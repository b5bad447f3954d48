// A thread for each pair of elements, or for four pairs where four can be read at a time.

#include "kernels/generic/attention/positions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/rows/rows.hpp"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T, int width>
__global__ void rope_kernel(Rope of, std::size_t count) {
  const std::size_t thread = global_thread();
  if (thread >= count) {
    return;
  }
  const std::size_t packs = of.half / width;  // of a head
  const std::size_t pair = thread % packs * width;
  const std::size_t head = thread / packs;
  const auto row = static_cast<int>(head / of.heads % of.seq);
  const std::size_t angle = position_of(of.positions, row) * of.half + pair;
  const std::size_t first = head * 2 * of.half + pair;
  const std::size_t second = first + of.half;
  T cosines[width];
  T sines[width];
  T lower[width];
  T upper[width];
  load(of.cosines, angle, cosines);
  load(of.sines, angle, sines);
  load(of.x, first, lower);
  load(of.x, second, upper);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const T sine = static_cast<T>(of.sign) * sines[i];
    const T a = lower[i];
    const T c = upper[i];
    lower[i] = a * cosines[i] - c * sine;
    upper[i] = c * cosines[i] + a * sine;
  }
  store(of.x, first, lower);
  store(of.x, second, upper);
}

}  // namespace

template <>
void rope<kExecutor>(const Rope& of, const Queue& queue) {
  const std::size_t pairs = of.batch * of.seq * of.heads * of.half;
  const bool several = of.half % kSeveral == 0 && come_in_several({of.x, of.cosines, of.sines});
  const std::size_t count = several ? pairs / kSeveral : pairs;
  const auto narrow_kernel =
      sums_in_f64(of.x.number) ? rope_kernel<double, 1> : rope_kernel<float, 1>;
  launch_each(several ? rope_kernel<float, kSeveral> : narrow_kernel, "rope", count, queue, of,
              count);
}

}  // namespace ultra::kernels::generic
