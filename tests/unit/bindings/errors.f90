program errors
    use iris
    implicit none
    type(iris_t) :: model, other
    real :: x(4, 150) = 0, y(3, 150) = 0, loss, before
    integer :: code
    character(:), allocatable :: message

    call model%step(150, x, y, loss, code, message)
    print '(i0, 1x, a)', code, message
    call model%init(0)
    call model%step(150, x(:, :2), y, loss, code, message)
    print '(i0, 1x, a)', code, message
    call model%step(-1, x, y, loss, code, message)
    print '(i0, 1x, a)', code, message
    call model%load('missing', code, message)
    print '(i0, 1x, a)', code, message
    other = model
    call model%step(150, x, y, before)
    call model%step(150, x, y, loss)
    call other%step(150, x, y, loss)
    print '(l1)', loss == before
    call model%load('missing')
end program
