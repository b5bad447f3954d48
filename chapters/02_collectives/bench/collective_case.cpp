#include "chapters/02_collectives/bench/collective_case.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::collectives {
namespace {

constexpr int kRoot = 0;
constexpr double kSpoiled = -999.0;

/// Element i of rank r.
double contribution(int rank, std::size_t i) {
  return static_cast<double>((i * 3 + static_cast<std::size_t>(rank) * 7) % 16);
}

double sum_of_contributions(int ranks, std::size_t i) {
  double sum = 0.0;
  for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, i);
  return sum;
}

void fill_with(const Tensor& tensor, const std::function<double(std::size_t)>& value) {
  dispatch_float(tensor.dtype(), [&]<class T>() {
    const HostView<T> elements(tensor, HostAccess::kWrite);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<T>(value(i));
  });
}

std::size_t count_differences(const Tensor& tensor,
                              const std::function<double(std::size_t)>& expected) {
  std::size_t wrong = 0;
  dispatch_float(tensor.dtype(), [&]<class T>() {
    const HostView<const T> elements(tensor);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] != static_cast<T>(expected(i))) ++wrong;
    }
  });
  return wrong;
}

/// What distinguishes one collective from another here.
struct Plan {
  std::size_t input_count;   ///< 0: in place on the output
  std::size_t output_count;  ///< 0: this rank receives nothing
  std::function<void(const Communicator&, const Tensor& input, const Tensor& output)> run;
  std::function<double(std::size_t i)> input;     ///< of this rank, or of the output when in place
  std::function<double(std::size_t i)> expected;  ///< output element i of this rank
};

class PlannedCase : public CollectiveCase {
 public:
  PlannedCase(Plan plan, std::size_t count, DType dtype, const Device& device)
      : plan_(std::move(plan)),
        count_(count),
        in_place_(plan_.input_count == 0),
        output_(Tensor::empty(device, {plan_.output_count}, dtype)),
        input_(in_place_ ? output_ : Tensor::empty(device, {plan_.input_count}, dtype)),
        contribution_(Tensor::empty(device, input_.shape(), dtype)) {
    fill_with(contribution_, plan_.input);
  }

  void refresh() override {
    if (!in_place_) output_.fill(kSpoiled);
    input_.copy_from(contribution_);
  }
  void run(const Communicator& comm) override { plan_.run(comm, input_, output_); }
  std::size_t wrong_elements() const override { return count_differences(output_, plan_.expected); }
  std::size_t count() const override { return count_; }

 private:
  Plan plan_;
  std::size_t count_;
  bool in_place_;
  Tensor output_;
  Tensor input_;
  Tensor contribution_;  // what this rank gives, to begin again from
};

/// Operations on the whole array of every rank, in place.
Plan in_place_plan(OpKind op, std::size_t count, int rank, int ranks) {
  Plan plan{.input_count = 0,
            .output_count = count,
            .run = {},
            .input = [rank](std::size_t i) { return contribution(rank, i); },
            .expected = {}};
  if (op == OpKind::kBroadcast) {
    plan.run = [](const Communicator& comm, const Tensor&, const Tensor& data) {
      comm.broadcast(data, kRoot).wait();
    };
    plan.expected = [](std::size_t i) { return contribution(kRoot, i); };
  } else if (op == OpKind::kReduce) {
    plan.run = [](const Communicator& comm, const Tensor&, const Tensor& data) {
      comm.reduce(data, kRoot).wait();
    };
    plan.expected = [rank, ranks](std::size_t i) {
      return rank == kRoot ? sum_of_contributions(ranks, i) : contribution(rank, i);
    };
  } else {
    plan.run = [](const Communicator& comm, const Tensor&, const Tensor& data) {
      comm.all_reduce(data).wait();
    };
    plan.expected = [ranks](std::size_t i) { return sum_of_contributions(ranks, i); };
  }
  return plan;
}

/// Operations between a whole array and the ranks' equal parts of it.
Plan parts_plan(OpKind op, std::size_t part, int rank, int ranks) {
  const std::size_t whole = part * static_cast<std::size_t>(ranks);
  const std::size_t begin = part * static_cast<std::size_t>(rank);
  const auto whole_element = [](std::size_t i) { return contribution(0, i); };
  const auto part_element = [begin](std::size_t i) { return contribution(0, begin + i); };
  switch (op) {
    case OpKind::kGather:
      return {part, rank == kRoot ? whole : 0,
              [](const Communicator& comm, const Tensor& input, const Tensor& output) {
                comm.gather(input, output, kRoot).wait();
              },
              part_element, whole_element};
    case OpKind::kScatter:
      return {whole, part,
              [](const Communicator& comm, const Tensor& input, const Tensor& output) {
                comm.scatter(input, output, kRoot).wait();
              },
              whole_element, part_element};
    case OpKind::kAllGather:
      return {part, whole,
              [](const Communicator& comm, const Tensor& input, const Tensor& output) {
                comm.all_gather(input, output).wait();
              },
              part_element, whole_element};
    case OpKind::kReduceScatter:
      return {whole, part,
              [](const Communicator& comm, const Tensor& input, const Tensor& output) {
                comm.reduce_scatter(input, output).wait();
              },
              [rank](std::size_t i) { return contribution(rank, i); },
              [begin, ranks](std::size_t i) { return sum_of_contributions(ranks, begin + i); }};
    case OpKind::kAllToAll:
      return {whole, whole,
              [](const Communicator& comm, const Tensor& input, const Tensor& output) {
                comm.all_to_all(input, output).wait();
              },
              [rank](std::size_t i) { return contribution(rank, i); },
              [begin, part](std::size_t i) {
                return contribution(static_cast<int>(i / part), begin + i % part);
              }};
    default:
      break;
  }
  throw ConfigError(fmt::format(
      "{} has no data to measure. Choose broadcast, reduce, all_reduce, gather, scatter, "
      "all_gather, reduce_scatter or all_to_all.",
      to_string(op)));
}

}  // namespace

std::unique_ptr<CollectiveCase> make_case(OpKind op, const Communicator& comm, std::size_t count,
                                          DType dtype, const Device& device) {
  const bool whole_everywhere =
      op == OpKind::kBroadcast || op == OpKind::kReduce || op == OpKind::kAllReduce;
  if (whole_everywhere) {
    return std::make_unique<PlannedCase>(in_place_plan(op, count, comm.rank(), comm.size()), count,
                                         dtype, device);
  }
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t part = ceil_div(count, ranks);
  return std::make_unique<PlannedCase>(parts_plan(op, part, comm.rank(), comm.size()), part * ranks,
                                       dtype, device);
}

}  // namespace ultra::collectives
