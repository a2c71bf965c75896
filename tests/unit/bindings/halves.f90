program halves
    use iris
    implicit none
    type(iris_t) :: model
    real :: x(4, 150, 2), y(3, 150, 2), loss, losses(2)
    integer :: i

    x = reshape([(real(mod(i, 5)), i=0, 1199)], [4, 150, 2])
    y = reshape([(real(mod(i, 2)), i=0, 899)], [3, 150, 2])
    call model%init(0)
    call model%grads(150, x(:, :, 1), y(:, :, 1), loss)
    call model%update()
    call model%step_many(150, 2, x, y, losses)
    call model%save('trained.safetensors')
    print '(f7.5, 1x, f7.5, 1x, f7.5)', loss, losses
end program
