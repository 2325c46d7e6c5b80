/* fake_c10.cc: a libc10.so for test_oom.cc, with the classes that the real one has. WHOLE: the derived class has a
 * constructor of its own, as in recent versions; else it inherits its base's and exports none. */
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace c10 {

struct SourceLocation {
    const char *function;
    const char *file;
    std::uint32_t line;
};

static int alive;

class EXPORT Error : public std::exception {
    std::string message;
    std::vector<std::string> context;

  public:
    SourceLocation where;
    Error(SourceLocation location, std::string text);
    Error(const Error &) = delete;
    ~Error() override;
    const char *what() const noexcept override { return message.c_str(); }
    virtual const char *kind() const noexcept;
};

class EXPORT OutOfMemoryError : public Error {
  public:
#ifdef WHOLE
    OutOfMemoryError(SourceLocation location, std::string text);
#else
    using Error::Error;
#endif
    const char *kind() const noexcept override;
};

Error::Error(SourceLocation location, std::string text) : message(std::move(text)), context(3, message), where(location) { alive++; }
Error::~Error() { alive--; }
const char *Error::kind() const noexcept { return "Error"; }
#ifdef WHOLE
OutOfMemoryError::OutOfMemoryError(SourceLocation location, std::string text) : Error(location, std::move(text)) {}
#endif
const char *OutOfMemoryError::kind() const noexcept { return "OutOfMemoryError"; }

} // namespace c10

/* 0: f(message) threw an OutOfMemoryError with that message, and it was destroyed afterwards; else a number. */
extern "C" EXPORT int fake_c10_catches(void (*f)(const char *), const char *message)
{
    try {
        f(message);
        return 1;
    } catch (const c10::OutOfMemoryError &e) {
        if (std::strcmp(e.what(), message) != 0 || std::strcmp(e.kind(), "OutOfMemoryError") != 0 || c10::alive != 1)
            return 2;
        if (!e.where.function || !e.where.file)
            return 3;
    } catch (...) {
        return 4;
    }
    return c10::alive == 0 ? 0 : 5;
}
