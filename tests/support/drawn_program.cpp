#include "tests/support/drawn_program.hpp"

#include <fmt/format.h>

#include <utility>

namespace ultra::test {
namespace {

/// Rows that member `from` sends to member `to`, the same on both.
std::size_t rows_between(const Line& line, int from, int to) {
  return (line.count + 3 * static_cast<std::size_t>(from) + 5 * static_cast<std::size_t>(to)) % 7;
}

/// The works that a line has issued; what they use, they keep.
using Works = std::vector<Work>;

class LineRunner {
 public:
  LineRunner(const Line& line, const Communicator& group, const Device& device)
      : line_(line),
        group_(group),
        size_(static_cast<std::size_t>(group.size())),
        device_(device) {}

  Works start() const {
    using Call = Line::Call;
    const std::size_t whole = line_.count * size_ + line_.extra;
    const int root = line_.choice % group_.size();
    const int distance = line_.choice - 3;
    switch (line_.call) {
      case Call::kBroadcast:
        return one(group_.broadcast(tensor(whole), root));
      case Call::kReduce:
        return one(group_.reduce(tensor(whole), root));
      case Call::kAllReduce:
        return one(group_.all_reduce(tensor(whole), ReduceOp::kMax));
      case Call::kGather:
        return one(group_.gather(tensor(line_.count), tensor(line_.count * size_), root));
      case Call::kScatter:
        return one(group_.scatter(tensor(line_.count * size_), tensor(line_.count), root));
      case Call::kAllGather: {
        const Tensor all = tensor(whole);
        return one(group_.all_gather(own_part(all), all));
      }
      case Call::kReduceScatter: {
        const Tensor all = tensor(whole);
        return one(group_.reduce_scatter(all, own_part(all)));
      }
      case Call::kAllToAll:
        return one(group_.all_to_all(tensor(line_.count * size_), tensor(line_.count * size_)));
      case Call::kAllToAllRows:
        return start_rows();
      case Call::kBarrier:
        return one(group_.barrier());
      case Call::kSendOn: {
        Work send = group_.send(tensor(whole), group_.next_rank(), line_.choice);
        return two(std::move(send), group_.recv(tensor(whole), group_.prev_rank(), line_.choice));
      }
      case Call::kSendNamed: {
        const MessageName name{.channel = 1, .number = static_cast<std::uint32_t>(line_.choice)};
        Work send = group_.send(tensor(whole), group_.next_rank(), name);
        return two(std::move(send), group_.recv(tensor(whole), group_.prev_rank(), name));
      }
      case Call::kShift:
        return one(group_.ring_shift(tensor(whole), tensor(whole), distance));
    }
    return {};
  }

 private:
  Tensor tensor(std::size_t count) const { return Tensor::zeros(device_, {count}, line_.dtype); }

  Tensor own_part(const Tensor& all) const {
    const Range own = comm::Chunks::even({0, all.numel()}, group_.size())[group_.rank()];
    return line_.in_place ? all.slice(0, own) : tensor(own.size());
  }

  Works start_rows() const {
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int member = 0; member < group_.size(); ++member) {
      sent += to.emplace_back(rows_between(line_, group_.rank(), member));
      received += from.emplace_back(rows_between(line_, member, group_.rank()));
    }
    const Tensor input = Tensor::zeros(device_, {sent, 3}, line_.dtype);
    const Tensor output = Tensor::zeros(device_, {received, 3}, line_.dtype);
    return one(group_.all_to_all_v(input, to, output, from));
  }

  static Works one(PendingCall&& call) {
    Works works;
    works.push_back(std::move(call));
    return works;
  }
  static Works two(Work send, Work receive) {
    Works works;
    works.push_back(std::move(send));
    works.push_back(std::move(receive));
    return works;
  }

  const Line& line_;
  const Communicator& group_;
  std::size_t size_;
  const Device& device_;
};

}  // namespace

DrawnProgram draw_program(Random& random, std::size_t lines) {
  const std::size_t pp = random.pick({1U, 2U, 4U});
  const std::size_t tp = random.pick({1U, 2U});
  DrawnProgram program{
      .shape = MeshShape({replicas(8 / pp / tp),
                          {.name = "pp", .size = pp, .splits = Splits::kLayers, .nearness = 20},
                          {.name = "tp", .size = tp, .nearness = 40}}),
      .lines = {}};
  for (std::size_t i = 0; i < lines; ++i) {
    program.lines.push_back(
        {.axes = random.pick<std::vector<std::string_view>>(
             {{"dp"}, {"pp"}, {"tp"}, {"dp", "tp"}, {"dp", "pp"}, {"dp", "pp", "tp"}}),
         .call = static_cast<Line::Call>(random.between(0, 12)),
         .count = random.between(0, 40),
         .extra = random.between(0, 3),
         .dtype = random.pick({DType::kF32, DType::kF64, DType::kBF16, DType::kI32}),
         .choice = static_cast<int>(random.between(0, 8)),
         .in_place = random.between(0, 1) == 1,
         .waits = random.between(0, 1) == 1,
         .label = random.pick<std::string>({"", "bucket", fmt::format("line {}", i)})});
    Line& line = program.lines.back();
    if (line.call == Line::Call::kSendNamed) line.choice = static_cast<int>(i);
  }
  return program;
}

void run_program(const DrawnProgram& program, const Communicator& world, const Device& device,
                 const std::function<void(std::size_t)>& after) {
  const Mesh mesh(world, program.shape);
  Works later;
  for (std::size_t i = 0; i < program.lines.size(); ++i) {
    const Line& line = program.lines[i];
    const Communicator group = mesh.group(line.axes).labeled(line.label);
    Works works = LineRunner(line, group, device).start();
    for (Work& work : works) {
      if (line.waits) {
        work.wait();
      } else {
        later.push_back(std::move(work));
      }
    }
    after(i);
  }
  for (Work& work : later) work.wait();
}

}  // namespace ultra::test
