// Vectors of common elements as members of options: made here for all programs.
#include <lockstep/out_of_line.h>

namespace lockstep::detail {

template class OutOfLine<std::vector<std::int64_t>>;
template class OutOfLine<std::vector<double>>;
template class OutOfLine<std::vector<std::string>>;
template class OutOfLine<std::vector<std::pair<std::int64_t, std::int64_t>>>;

}  // namespace lockstep::detail
